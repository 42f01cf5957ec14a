//! How an executable graph is run in a stream.

use std::collections::HashMap;
use std::sync::Arc;

use cuda_headers::driver::CUresult;

use super::{Node, NodeWork};
use crate::engine::{self, Effect, Kind, Mark, StreamKey, Work};
use crate::ops::Op;

/// A node of an executable graph, in an order in which each comes after what it waits for.
#[derive(Clone)]
pub(crate) struct Step {
    /// The node of the graph that it was made from.
    pub(crate) node: usize,
    pub(crate) op: Op,
    /// Steps, by index.
    pub(crate) after: Vec<usize>,
    pub(crate) enabled: bool,
}

/// Puts nodes into an order that respects what they wait for, child graphs spread out. `None`: they
/// wait for each other in a circle.
pub(crate) fn order(nodes: &[Node]) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    spread(nodes, &[], &mut steps)?;
    Some(steps)
}

/// Appends the steps of `nodes`; those that wait for nothing wait for `first`. Returns the steps
/// that nothing within waits for.
fn spread(nodes: &[Node], first: &[usize], steps: &mut Vec<Step>) -> Option<Vec<usize>> {
    let mut ends: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut left: Vec<&Node> = nodes.iter().collect();
    while !left.is_empty() {
        let before = left.len();
        let mut later = Vec::new();
        for node in left {
            let known: Option<Vec<_>> = node.dependencies.iter().map(|d| ends.get(d)).collect();
            let Some(known) = known else {
                later.push(node);
                continue;
            };
            let mut after: Vec<usize> = known.into_iter().flatten().copied().collect();
            if node.dependencies.is_empty() {
                after.extend(first);
            }
            let end = match &node.work {
                NodeWork::Op(op) => {
                    steps.push(Step {
                        node: node.handle,
                        op: op.clone(),
                        after,
                        enabled: true,
                    });
                    vec![steps.len() - 1]
                }
                NodeWork::Child(child) => {
                    let inner = child.inner().nodes.clone();
                    let ends = spread(&inner, &after, steps)?;
                    if ends.is_empty() { after } else { ends }
                }
            };
            ends.insert(node.handle, end);
        }
        if later.len() == before {
            return None;
        }
        left = later;
    }
    let waited_for: Vec<usize> = nodes
        .iter()
        .flat_map(|node| node.dependencies.iter().copied())
        .collect();
    Some(
        nodes
            .iter()
            .filter(|node| !waited_for.contains(&node.handle))
            .filter_map(|node| ends.get(&node.handle))
            .flatten()
            .copied()
            .collect(),
    )
}

/// Puts the steps into a stream.
pub(crate) fn run(
    steps: &[Step],
    key: StreamKey,
    context: u64,
    device: usize,
) -> Result<(), CUresult> {
    match as_one(steps) {
        Some((duration, effects)) => engine::enqueue(key, Work::Kernel { duration, effects }),
        None => in_lanes(steps, key, context, device),
    }
}

/// The whole graph as one piece of GPU time, where it consists of nothing else: branches run side
/// by side, so it lasts as long as its longest path.
fn as_one(steps: &[Step]) -> Option<(u64, Vec<(u64, Effect)>)> {
    let mut ends: Vec<u64> = Vec::with_capacity(steps.len());
    let mut effects = Vec::new();
    for step in steps {
        let start = step
            .after
            .iter()
            .map(|after| ends[*after])
            .max()
            .unwrap_or(0);
        if !step.enabled {
            ends.push(start);
            continue;
        }
        let work = step.op.gpu_work()?;
        let end = start + work.duration;
        ends.push(end);
        effects.extend(work.effect.map(|effect| (end, effect)));
    }
    Some((ends.into_iter().max().unwrap_or(0), effects))
}

/// Each chain of steps in a stream of its own, all of them between what is in `key` before and
/// what comes after.
fn in_lanes(steps: &[Step], key: StreamKey, context: u64, device: usize) -> Result<(), CUresult> {
    let begin = engine::mark(key)?;
    let mut lanes: Vec<(StreamKey, usize)> = Vec::new();
    let mut marks: Vec<Option<Arc<Mark>>> = vec![None; steps.len()];
    for (index, step) in steps.iter().enumerate() {
        // A lane goes on with a step that waits for its last one.
        let lane = lanes.iter_mut().find(|(_, last)| step.after.contains(last));
        let stream = match lane {
            Some(lane) => {
                lane.1 = index;
                lane.0
            }
            None => {
                let stream = engine::create_stream(context, device, Kind::NonBlocking)?;
                engine::wait_for_mark(stream, &begin)?;
                lanes.push((stream, index));
                stream
            }
        };
        for after in &step.after {
            if let Some(mark) = &marks[*after] {
                engine::wait_for_mark(stream, mark)?;
            }
        }
        if step.enabled {
            step.op.enqueue(stream)?;
        }
        marks[index] = Some(engine::mark(stream)?);
    }
    for (lane, last) in lanes {
        if let Some(mark) = &marks[last] {
            engine::wait_for_mark(key, mark)?;
        }
        engine::destroy_stream(lane);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(handle: usize, dependencies: &[usize]) -> Node {
        Node {
            handle,
            work: NodeWork::Op(Op::Empty),
            dependencies: dependencies.to_vec(),
            local_id: 0,
            attributes: Default::default(),
        }
    }

    #[test]
    fn steps_come_after_what_they_wait_for() {
        let steps = order(&[node(1, &[2, 3]), node(2, &[3]), node(3, &[])]).unwrap();
        let handles: Vec<usize> = steps.iter().map(|step| step.node).collect();
        assert_eq!(handles, [3, 2, 1]);
        assert_eq!(steps[2].after, [1, 0]);
        assert!(order(&[node(1, &[2]), node(2, &[1])]).is_none());
    }
}
