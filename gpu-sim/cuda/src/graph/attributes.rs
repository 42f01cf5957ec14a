//! Attributes of kernel nodes: kept and given back; none changes how the node is run.

use std::collections::HashMap;

use cuda_headers::driver::{
    CUgraphNode, CUgraphNodeType, CUkernelNodeAttrID, CUkernelNodeAttrValue, CUlaunchAttributeID,
    CUresult,
};

use super::{INVALID, Node, with_node};
use crate::entry::{entry, input, out};

/// What has been set on a node, by attribute.
#[derive(Clone, Default)]
pub(crate) struct Attributes(HashMap<u32, CUkernelNodeAttrValue>);

// SAFETY: the values are kept, not followed.
unsafe impl Send for Attributes {}

fn check(node: &Node, attr: CUkernelNodeAttrID) -> Result<(), CUresult> {
    let kernel = node.kind() == CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
    if kernel && attr.0 < CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_MAX.0 {
        Ok(())
    } else {
        Err(INVALID)
    }
}

entry! {
    fn cuGraphKernelNodeGetAttribute(
        hNode: CUgraphNode,
        attr: CUkernelNodeAttrID,
        value_out: *mut CUkernelNodeAttrValue,
    ) {
        let kept = with_node(hNode, |node| {
            check(node, attr)?;
            Ok(node.attributes.0.get(&attr.0).copied())
        })?;
        // SAFETY: all zeros are a valid value of this union of integers and addresses.
        out(value_out, kept.unwrap_or_else(|| unsafe { std::mem::zeroed() }))
    }

    fn cuGraphKernelNodeSetAttribute(
        hNode: CUgraphNode,
        attr: CUkernelNodeAttrID,
        value: *const CUkernelNodeAttrValue,
    ) {
        let value = *input(value)?;
        with_node(hNode, |node| {
            check(node, attr)?;
            node.attributes.0.insert(attr.0, value);
            Ok(())
        })
    }

    fn cuGraphKernelNodeCopyAttributes(dst: CUgraphNode, src: CUgraphNode) {
        let any = CUkernelNodeAttrID(0);
        let source = with_node(src, |node| {
            check(node, any)?;
            Ok(node.attributes.clone())
        })?;
        with_node(dst, |node| {
            check(node, any)?;
            node.attributes = source;
            Ok(())
        })
    }
}
