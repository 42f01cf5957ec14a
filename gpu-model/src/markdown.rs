//! The tables of `docs/benchmarks-share.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::row::{Figure, Row};

/// All tables of some rows.
#[must_use]
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let known = ["limit", "turns", "slices", "blocks", "wall", "bare"];
    let there = |scheme: &&str| rows.iter().any(|row| row.scheme == *scheme);
    let schemes: Vec<_> = known.into_iter().filter(there).collect();
    for scheme in &schemes {
        let of_scheme: Vec<_> = rows.iter().filter(|row| row.scheme == *scheme).collect();
        summary(&mut text, scheme, &of_scheme);
    }
    for group in ["alone", "pair-weights", "pair-limits"] {
        // Under limits the other schemes do what they do under weights, which are limits to them.
        let shown = if group == "pair-limits" {
            1
        } else {
            schemes.len()
        };
        for scheme in schemes
            .iter()
            .filter(|scheme| has(rows, group, scheme))
            .take(shown)
        {
            let here = |row: &&Row| row.scheme == *scheme && parts(&row.cell).0 == group;
            let of_group: Vec<_> = rows.iter().filter(here).collect();
            crossed(&mut text, group, scheme, &of_group);
        }
    }
    // `limit` is the limiter where there is no daemon, so in other cells than these.
    let others: Vec<_> = schemes
        .iter()
        .copied()
        .filter(|scheme| *scheme != "limit")
        .collect();
    rest(&mut text, rows, &others);
    stories(&mut text, rows, &schemes);
    events(&mut text, rows);
    text
}

fn has(rows: &[Row], group: &str, scheme: &str) -> bool {
    let mut rows = rows.iter();
    rows.any(|row| row.scheme == scheme && parts(&row.cell).0 == group)
}

/// Group, works and shares of a cell's name.
fn parts(cell: &str) -> (&str, &str, &str) {
    let (group, rest) = cell.split_once('/').unwrap_or((cell, ""));
    let (works, shares) = rest.split_once('/').unwrap_or((rest, ""));
    (group, works, shares)
}

fn mark(row: &Row) -> &'static str {
    if row.missed == 0 { "" } else { " **x**" }
}

/// With how much they differ from seed to seed, where that shows.
fn got(row: &Row) -> String {
    let spread = row.tenants.iter().map(|tenant| tenant.spread);
    let spread = spread.fold(0.0, f64::max);
    let noise = if spread >= 1.0 {
        format!(" ±{:.1}", spread / 2.0)
    } else {
        String::new()
    };
    format!("{}{noise}{}", row.got(1), mark(row))
}

fn summary(text: &mut String, scheme: &str, rows: &[&Row]) {
    let met = rows.iter().filter(|row| row.missed == 0).count();
    let _ = writeln!(
        text,
        "`{scheme}`: {met} of {} cells meet their goals.\n",
        rows.len()
    );
}

/// Works by shares.
fn crossed(text: &mut String, group: &str, scheme: &str, rows: &[&Row]) {
    let mut shares: Vec<&str> = Vec::new();
    let mut works: Vec<&str> = Vec::new();
    let mut found = BTreeMap::new();
    for row in rows {
        let (_, work, share) = parts(&row.cell);
        if !shares.contains(&share) {
            shares.push(share);
        }
        if !works.contains(&work) {
            works.push(work);
        }
        found.insert((work, share), *row);
    }
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "### {group}, `{scheme}`\n");
    let _ = writeln!(text, "| | {} |", shares.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(shares.len()));
    for work in works {
        let _ = write!(text, "| {work} |");
        for share in &shares {
            let cell = found.get(&(work, *share)).map(|row| got(row));
            let _ = write!(text, " {} |", cell.unwrap_or_default());
        }
        text.push('\n');
    }
    text.push('\n');
}

/// Cells of the other groups, schemes side by side.
fn rest(text: &mut String, rows: &[Row], schemes: &[&str]) {
    let mut cells: Vec<&str> = Vec::new();
    for row in rows {
        let group = parts(&row.cell).0;
        if !["alone", "pair-weights", "pair-limits", "story"].contains(&group)
            && !cells.contains(&row.cell.as_str())
        {
            cells.push(&row.cell);
        }
    }
    if cells.is_empty() {
        return;
    }
    let _ = writeln!(text, "### Three and more, many processes, two devices\n");
    let _ = writeln!(text, "| | {} |", schemes.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(schemes.len()));
    for cell in cells {
        let _ = write!(text, "| {cell} |");
        for scheme in schemes {
            let row = rows
                .iter()
                .find(|row| row.cell == cell && row.scheme == *scheme);
            let _ = write!(text, " {} |", row.map(got).unwrap_or_default());
        }
        text.push('\n');
    }
    text.push('\n');
}

/// What happens in stories: figures by scheme.
fn stories(text: &mut String, rows: &[Row], schemes: &[&str]) {
    let told: Vec<_> = rows.iter().filter(|row| !row.figures.is_empty()).collect();
    let here = |scheme: &&str| told.iter().any(|row| row.scheme == *scheme);
    let schemes: Vec<_> = schemes.iter().copied().filter(here).collect();
    let Some(first) = schemes.first() else {
        return;
    };
    let _ = writeln!(text, "### Stories\n");
    let _ = writeln!(text, "| | | goal | {} |", schemes.join(" | "));
    let _ = writeln!(text, "|---|---|---|{}", "--:|".repeat(schemes.len()));
    for row in told.iter().filter(|row| row.scheme == *first) {
        let mut name = row.cell.trim_start_matches("story/");
        for (index, figure) in row.figures.iter().enumerate() {
            let goal = figure.goal.map_or(String::new(), |(from, to)| {
                format!("{:.0} to {to:.0}", from.max(0.0))
            });
            let _ = write!(text, "| {name} | {} | {goal} |", figure.name);
            name = "";
            for scheme in &schemes {
                let found = told
                    .iter()
                    .find(|other| other.cell == row.cell && other.scheme == *scheme);
                let value = found
                    .and_then(|row| row.figures.get(index))
                    .map(figure_text);
                let _ = write!(text, " {} |", value.unwrap_or_default());
            }
            text.push('\n');
        }
    }
    text.push('\n');
}

fn figure_text(figure: &Figure) -> String {
    let (least, most) = figure.range;
    let missed = match figure.goal {
        Some((from, to)) if least < from || most > to => " **x**",
        _ => "",
    };
    if most - least >= 0.1 {
        format!("{:.1} ({least:.1} to {most:.1}){missed}", figure.value)
    } else {
        format!("{:.1}{missed}", figure.value)
    }
}

/// What measuring costs the GPU, where it costs the most.
fn events(text: &mut String, rows: &[Row]) {
    let own = |row: &&Row| matches!(row.scheme, "limit" | "turns" | "slices");
    let mut tenants: Vec<_> = rows
        .iter()
        .filter(own)
        .flat_map(|row| row.tenants.iter().map(move |tenant| (row, tenant)))
        .collect();
    tenants.sort_by(|one, other| other.1.events.total_cmp(&one.1.events));
    let twenty = tenants
        .iter()
        .filter(|(row, _)| row.cell.starts_with("alone/20us/"))
        .max_by(|one, other| one.1.events.total_cmp(&other.1.events));
    let _ = writeln!(text, "### Events\n");
    let _ = writeln!(
        text,
        "| | scheme | events a second | of the GPU's time |\n|---|---|--:|--:|"
    );
    for (row, tenant) in tenants.iter().take(3).chain(twenty) {
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.2} % |",
            row.cell, row.scheme, tenant.events, tenant.events_percent
        );
    }
}
