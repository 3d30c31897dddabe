//! Order over edges: topological positions, layers and cycles.
//!
//! Works on positions only and knows nothing of nodes.

use std::collections::BTreeSet;

/// An order in which every node comes after all it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Declared positions in the order of the walk; declared order is kept where the edges allow it.
    pub(crate) sequence: Vec<usize>,
    /// 1-based layer by declared position.
    pub(crate) layers: Vec<usize>,
}

/// Orders nodes `0..sources.len()`, where `sources[n]` are the nodes that `n` depends on. The error is a
/// cycle as declared positions, the first one repeated at the end.
pub(crate) fn order(sources: &[BTreeSet<usize>]) -> Result<Order, Vec<usize>> {
    let mut dependents = vec![Vec::new(); sources.len()];
    let mut missing: Vec<usize> = sources.iter().map(BTreeSet::len).collect();
    for (node, needs) in sources.iter().enumerate() {
        for source in needs {
            if let Some(list) = dependents.get_mut(*source) {
                list.push(node);
            }
        }
    }
    let mut free: BTreeSet<usize> =
        missing.iter().enumerate().filter(|(_, count)| **count == 0).map(|(node, _)| node).collect();
    let mut order = Order { sequence: Vec::with_capacity(sources.len()), layers: vec![1; sources.len()] };
    while let Some(node) = free.pop_first() {
        order.sequence.push(node);
        let layer = order.layers.get(node).copied().unwrap_or(1);
        for dependent in dependents.get(node).into_iter().flatten() {
            if let Some(own) = order.layers.get_mut(*dependent) {
                *own = (*own).max(layer + 1);
            }
            if let Some(count) = missing.get_mut(*dependent) {
                *count -= 1;
                if *count == 0 {
                    free.insert(*dependent);
                }
            }
        }
    }
    if order.sequence.len() == sources.len() { Ok(order) } else { Err(cycle(sources, &missing)) }
}

/// A cycle among the nodes that could not be ordered: every one of them has a source that is not ordered
/// either, so walking back along sources must come round.
fn cycle(sources: &[BTreeSet<usize>], missing: &[usize]) -> Vec<usize> {
    let stuck = |node: &usize| missing.get(*node).is_some_and(|count| *count > 0);
    let mut path: Vec<usize> = Vec::new();
    let mut at = (0..sources.len()).find(|node| stuck(node));
    while let Some(node) = at {
        if let Some(start) = path.iter().position(|seen| *seen == node) {
            let mut round = path.split_off(start);
            let least = round.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
            round.rotate_left(least);
            round.extend(round.first().copied());
            return round;
        }
        path.push(node);
        at = sources.get(node).and_then(|needs| needs.iter().copied().find(|source| stuck(source)));
    }
    path
}

/// Which nodes are on a common circle: nodes with the same number reach each other along sources.
pub(crate) fn circles(sources: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut dependents = vec![BTreeSet::new(); sources.len()];
    for (node, needs) in sources.iter().enumerate() {
        for source in needs {
            if let Some(list) = dependents.get_mut(*source) {
                list.insert(node);
            }
        }
    }
    // Kosaraju: nodes in the order in which a search backwards finishes them, then searches forwards from the last.
    let mut visited = vec![false; sources.len()];
    let mut finished = Vec::with_capacity(sources.len());
    for start in 0..sources.len() {
        search(start, sources, &mut visited, &mut |node| finished.push(node));
    }
    let mut visited = vec![false; sources.len()];
    let mut circle = vec![0; sources.len()];
    for (number, start) in finished.into_iter().rev().enumerate() {
        search(start, &dependents, &mut visited, &mut |node| {
            if let Some(slot) = circle.get_mut(node) {
                *slot = number;
            }
        });
    }
    circle
}

/// Depth first without recursion; `finish` gets every new node after all that it leads to.
fn search(start: usize, next: &[BTreeSet<usize>], visited: &mut [bool], finish: &mut impl FnMut(usize)) {
    let mut visit = |node: usize| visited.get_mut(node).is_some_and(|seen| !std::mem::replace(seen, true));
    let children = |node: usize| next.get(node).into_iter().flatten().copied();
    if !visit(start) {
        return;
    }
    let mut stack = vec![(start, children(start))];
    while let Some((node, rest)) = stack.last_mut() {
        match rest.next() {
            Some(child) if visit(child) => stack.push((child, children(child))),
            Some(_) => {}
            None => {
                finish(*node);
                stack.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(lists: &[&[usize]]) -> Vec<BTreeSet<usize>> {
        lists.iter().map(|list| list.iter().copied().collect()).collect()
    }

    fn check(lists: &[&[usize]], sequence: &[usize], layers: &[usize]) {
        let order = order(&edges(lists)).unwrap();
        assert_eq!((order.sequence.as_slice(), order.layers.as_slice()), (sequence, layers));
    }

    #[test]
    fn orders_by_declared_position() {
        check(&[], &[], &[]);
        check(&[&[], &[], &[]], &[0, 1, 2], &[1, 1, 1]);
        check(&[&[2], &[], &[]], &[1, 2, 0], &[2, 1, 1]);
        check(&[&[1], &[2], &[]], &[2, 1, 0], &[3, 2, 1]);
        check(&[&[], &[0], &[0], &[1, 2]], &[0, 1, 2, 3], &[1, 2, 2, 3]);
    }

    #[test]
    fn cycles_start_at_the_least_node() {
        for (lists, cycle) in [
            (edges(&[&[1], &[0]]), vec![0, 1, 0]),
            (edges(&[&[], &[2], &[3], &[1]]), vec![1, 2, 3, 1]),
            (edges(&[&[2], &[2], &[1]]), vec![1, 2, 1]),
        ] {
            assert_eq!(order(&lists).unwrap_err(), cycle);
        }
    }

    #[test]
    fn circles_group_what_reaches_each_other() {
        let circle = circles(&edges(&[&[1], &[0], &[1], &[4], &[5], &[3], &[]]));
        let same = |a: usize, b: usize| circle[a] == circle[b];
        assert!(same(0, 1) && same(3, 4) && same(4, 5));
        assert!(!same(0, 2) && !same(0, 3) && !same(2, 6) && !same(6, 3));
    }
}
