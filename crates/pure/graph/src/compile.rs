//! From declarations to a Graph: names, bodies, expressions, edges, order.
//!
//! All problems that can be found are reported at once; nothing here looks at the world.

mod names;
mod shape;

use std::collections::{BTreeMap, BTreeSet};

use kardinal_cel::{Env, Program, Reference, Template, TemplateError};
use serde_json::json;

use crate::declare::{Body, Declaration, Problem, ProblemReason};
use crate::graph::{Condition, Graph, Node, NodeKind, Source};
use crate::identity::sha256_hex;
use crate::order::{Order, circles, order};

/// Compiles nodes; the error lists everything that is wrong with them.
pub fn compile(declarations: &[Declaration]) -> Result<Graph, Vec<Problem>> {
    let mut problems = Vec::new();
    let ids = names::check(declarations, &mut problems);
    let mut env = Env::standard();
    for id in ids.keys() {
        env = env.declare(*id);
    }
    let mut drafts = Vec::with_capacity(declarations.len());
    for (position, declaration) in declarations.iter().enumerate() {
        shape::check(position, declaration, &mut problems);
        drafts.push(draft(position, declaration, &env, &ids, &mut problems));
    }
    check_finalizers(declarations, &drafts, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let sequence = arrange(declarations, &drafts).map_err(|problem| vec![problem])?;
    mark_circles(&mut drafts);
    Ok(assemble(declarations, drafts, &sequence))
}

/// A node whose sources still are declared positions.
struct Draft {
    body: Option<Template>,
    for_each: Vec<(String, Program)>,
    include: Vec<Program>,
    ready: Vec<Condition>,
    propagate: Vec<Condition>,
    finalizes: Option<usize>,
    sources: BTreeMap<usize, Source>,
}

impl Draft {
    fn source(&mut self, node: usize) -> &mut Source {
        self.sources.entry(node).or_insert_with(|| Source {
            node,
            hard: false,
            soft: false,
            explicit: false,
            include: false,
            circular: false,
            paths: Vec::new(),
        })
    }

    fn read(&mut self, node: usize, reference: &Reference) {
        let source = self.source(node);
        if reference.optional {
            source.soft = true;
        } else {
            source.hard = true;
        }
        if !source.paths.contains(&reference.path) {
            source.paths.push(reference.path.clone());
        }
    }
}

fn draft(
    position: usize,
    declaration: &Declaration,
    env: &Env,
    ids: &BTreeMap<&str, usize>,
    problems: &mut Vec<Problem>,
) -> Draft {
    let mut compiler = Compiler { position, declaration, env, ids, problems };
    let mut draft = Draft {
        body: None,
        for_each: Vec::new(),
        include: Vec::new(),
        ready: Vec::new(),
        propagate: Vec::new(),
        finalizes: None,
        sources: BTreeMap::new(),
    };
    compiler.for_each(&mut draft);
    compiler.include(&mut draft);
    compiler.body(&mut draft);
    compiler.depends_on(&mut draft);
    compiler.finalizes(&mut draft);
    draft.ready = compiler.conditions("readyWhen", &declaration.ready_when, &mut draft);
    draft.propagate = compiler.conditions("propagateWhen", &declaration.propagate_when, &mut draft);
    draft
}

struct Compiler<'a> {
    position: usize,
    declaration: &'a Declaration,
    env: &'a Env,
    ids: &'a BTreeMap<&'a str, usize>,
    problems: &'a mut Vec<Problem>,
}

impl Compiler<'_> {
    fn path(&self, rest: &str) -> String {
        join_path(&format!("nodes[{}]", self.position), rest)
    }

    fn template_error(&mut self, base: &str, error: &TemplateError) {
        let path = join_path(&self.path(base), &error.path.to_string());
        let message = match &error.error.hint {
            Some(hint) => format!("{} ({hint})", error.error.message),
            None => error.error.message.clone(),
        };
        let start = error.offset + error.error.span.start as usize;
        let end = error.offset + error.error.span.end as usize;
        let reason = ProblemReason::ExpressionError;
        self.problems.push(Problem { path, reason, message, span: Some((start, end)) });
    }

    fn expression(&mut self, env: &Env, field: &str, text: &str) -> Option<Program> {
        match Template::compile_expression(env, text) {
            Ok(program) => Some(program),
            Err(error) => {
                self.template_error(field, &error);
                None
            }
        }
    }

    /// Notes what an expression reads. A node cannot read itself while it is being made.
    fn read(&mut self, draft: &mut Draft, field: &str, reference: &Reference) {
        let Some(&node) = self.ids.get(reference.root.as_str()) else { return };
        if node == self.position {
            let path = self.path(field);
            let message = format!(
                "node `{}` refers to itself; only its readyWhen and propagateWhen may",
                self.declaration.id
            );
            self.problems.push(Problem::dependency(path, message));
        } else {
            draft.read(node, reference);
        }
    }

    fn for_each(&mut self, draft: &mut Draft) {
        for (variable, text) in &self.declaration.for_each {
            let field = format!("forEach.{variable}");
            let Some(program) = self.expression(self.env, &field, text) else { continue };
            for reference in program.references() {
                self.read(draft, &field, reference);
            }
            draft.for_each.push((variable.clone(), program));
        }
    }

    fn include(&mut self, draft: &mut Draft) {
        for (at, text) in self.declaration.include_when.iter().enumerate() {
            let field = format!("includeWhen[{at}]");
            let Some(program) = self.expression(self.env, &field, text) else { continue };
            for reference in program.references() {
                self.read(draft, &field, reference);
                let root = self.ids.get(reference.root.as_str());
                if let Some(source) = root.and_then(|node| draft.sources.get_mut(node)) {
                    source.include |= !reference.optional;
                }
            }
            draft.include.push(program);
        }
    }

    fn body(&mut self, draft: &mut Draft) {
        let variables = self.declaration.for_each.iter();
        let env = variables.fold(self.env.clone(), |env, (variable, _)| env.declare(variable.as_str()));
        let keyword = self.declaration.body.keyword();
        match Template::compile(&env, self.declaration.body.value()) {
            Ok(template) => {
                for (path, reference) in template.references() {
                    self.read(draft, &join_path(keyword, &path.to_string()), reference);
                }
                draft.body = Some(template);
            }
            Err(errors) => errors.iter().for_each(|error| self.template_error(keyword, error)),
        }
    }

    fn depends_on(&mut self, draft: &mut Draft) {
        for (at, id) in self.declaration.depends_on.iter().enumerate() {
            let path = self.path(&format!("dependsOn[{at}]"));
            match self.ids.get(id.as_str()) {
                Some(&node) if node == self.position => {
                    let message = format!("node `{id}` depends on itself");
                    self.problems.push(Problem::dependency(path, message));
                }
                Some(&node) => draft.source(node).explicit = true,
                None => self.problems.push(Problem::dependency(path, names::unknown(id, self.ids))),
            }
        }
    }

    fn finalizes(&mut self, draft: &mut Draft) {
        let Some(id) = &self.declaration.finalizes else { return };
        let path = self.path("finalizes");
        match self.ids.get(id.as_str()) {
            Some(&node) if node == self.position => {
                let message = format!("node `{id}` finalizes itself");
                self.problems.push(Problem::dependency(path, message));
            }
            Some(&node) => {
                draft.finalizes = Some(node);
                draft.source(node).explicit = true;
            }
            None => self.problems.push(Problem::dependency(path, names::unknown(id, self.ids))),
        }
    }

    /// Conditions speak about the node after it was made, and about what it depends on anyway: they must not
    /// add edges, because health and gates come after the order.
    fn conditions(&mut self, name: &str, texts: &[String], draft: &mut Draft) -> Vec<Condition> {
        let list = !self.declaration.for_each.is_empty() || matches!(self.declaration.body, Body::Watch(_));
        let env = if list { self.env.clone().declare("each") } else { self.env.clone() };
        let mut conditions = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            let field = format!("{name}[{at}]");
            let Some(program) = self.expression(&env, &field, text) else { continue };
            let mut each = false;
            for reference in program.references() {
                each |= reference.root == "each";
                let Some(&node) = self.ids.get(reference.root.as_str()) else { continue };
                if node == self.position {
                    continue;
                }
                match draft.sources.get_mut(&node) {
                    Some(source) => {
                        if !source.paths.contains(&reference.path) {
                            source.paths.push(reference.path.clone());
                        }
                    }
                    None => {
                        let root = &reference.root;
                        let message = format!(
                            "refers to `{root}`, which node `{id}` does not depend on; {name} may use `{id}` and \
                             its dependencies (add `{root}` to dependsOn, or use it in the body)",
                            id = self.declaration.id
                        );
                        self.problems.push(Problem::dependency(self.path(&field), message));
                    }
                }
            }
            conditions.push(Condition { program, each });
        }
        conditions
    }
}

fn check_finalizers(declarations: &[Declaration], drafts: &[Draft], problems: &mut Vec<Problem>) {
    for (position, draft) in drafts.iter().enumerate() {
        for source in draft.sources.keys() {
            let finalizes = drafts.get(*source).is_some_and(|draft| draft.finalizes.is_some());
            if let (true, Some(declaration)) = (finalizes, declarations.get(*source)) {
                let message = format!(
                    "depends on `{}`, which exists only while another node is removed; nothing can depend on a \
                     node with `finalizes`",
                    declaration.id
                );
                problems.push(Problem::dependency(format!("nodes[{position}]"), message));
            }
        }
        let target = draft.finalizes.and_then(|target| declarations.get(target));
        if target.is_some_and(|target| !matches!(target.body, Body::Template(_) | Body::Patch(_))) {
            let message = "only a template or patch node can be finalized";
            problems.push(Problem::dependency(format!("nodes[{position}].finalizes"), message));
        }
    }
}

fn arrange(declarations: &[Declaration], drafts: &[Draft]) -> Result<Order, Problem> {
    let name = |node: &usize| declarations.get(*node).map_or("", |declaration| declaration.id.as_str());
    let describe = |cycle: Vec<usize>, message: &str| {
        let path = cycle.iter().map(name).collect::<Vec<_>>().join(" → ");
        let first = cycle.first().copied().unwrap_or_default();
        Problem::dependency(format!("nodes[{first}]"), message.replace("{}", &path))
    };
    let gates: Vec<BTreeSet<usize>> = drafts
        .iter()
        .map(|draft| draft.sources.values().filter(|s| s.gates()).map(|s| s.node).collect())
        .collect();
    let sequence = order(&gates).map_err(|cycle| {
        describe(cycle, "the nodes refer to each other in a cycle: `{}`; remove one reference or make it optional with `?.`")
    })?;
    // A soft cycle settles because it runs through the cluster. Values that are computed from each other
    // would never settle.
    let is_def = |node: usize| declarations.get(node).is_some_and(|d| matches!(d.body, Body::Def(_)));
    let values: Vec<BTreeSet<usize>> = drafts
        .iter()
        .enumerate()
        .map(|(node, draft)| draft.sources.keys().copied().filter(|s| is_def(node) && is_def(*s)).collect())
        .collect();
    order(&values).map_err(|cycle| {
        describe(cycle, "the def nodes compute each other in a cycle: `{}`; an optional reference can break a cycle only through an object")
    })?;
    Ok(sequence)
}

fn mark_circles(drafts: &mut [Draft]) {
    let all: Vec<BTreeSet<usize>> =
        drafts.iter().map(|draft| draft.sources.keys().copied().collect()).collect();
    let circle = circles(&all);
    for (node, draft) in drafts.iter_mut().enumerate() {
        for source in draft.sources.values_mut() {
            source.circular = circle.get(source.node) == circle.get(node);
        }
    }
}

fn assemble(declarations: &[Declaration], drafts: Vec<Draft>, order: &Order) -> Graph {
    let mut place = vec![0; declarations.len()];
    for (at, declared) in order.sequence.iter().enumerate() {
        if let Some(slot) = place.get_mut(*declared) {
            *slot = at;
        }
    }
    let placed = |declared: usize| place.get(declared).copied().unwrap_or_default();
    let mut slots: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    let mut nodes = Vec::with_capacity(declarations.len());
    for declared in &order.sequence {
        let draft = slots.get_mut(*declared).and_then(Option::take);
        let (Some(declaration), Some(draft)) = (declarations.get(*declared), draft) else { continue };
        let Some(body) = draft.body else { continue };
        let mut sources: Vec<Source> = draft.sources.into_values().collect();
        for source in &mut sources {
            source.node = placed(source.node);
        }
        sources.sort_by_key(|source| source.node);
        nodes.push(Node {
            id: declaration.id.clone(),
            key: declaration.id.to_ascii_lowercase(),
            kind: kind_of(&declaration.body),
            layer: order.layers.get(*declared).copied().unwrap_or(1),
            body,
            for_each: draft.for_each,
            include: draft.include,
            ready: draft.ready,
            propagate: draft.propagate,
            finalizes: draft.finalizes.map(placed),
            sources,
            dependents: Vec::new(),
            recheck_after: declaration.recheck_after,
            force: declaration.force,
            written: declaration.body.value().to_string().into(),
            gvk: shape::literal_gvk(&declaration.body),
        });
    }
    link(&mut nodes);
    let index = nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), at)).collect();
    let keys = nodes.iter().enumerate().map(|(at, node)| (node.key.clone(), at)).collect();
    let finalizes = nodes.iter().enumerate().filter(|(_, node)| node.finalizes.is_some());
    let finalizers = finalizes.map(|(at, _)| at).collect();
    Graph { nodes, index, keys, finalizers, hash: content_hash(declarations) }
}

fn link(nodes: &mut [Node]) {
    let mut uses = Vec::new();
    for (dependent, node) in nodes.iter().enumerate() {
        uses.extend(node.sources.iter().enumerate().map(|(at, source)| (source.node, dependent, at)));
    }
    for (source, dependent, at) in uses {
        if let Some(node) = nodes.get_mut(source) {
            node.dependents.push((dependent, at));
        }
    }
}

fn kind_of(body: &Body) -> NodeKind {
    match body {
        Body::Template(_) => NodeKind::Template,
        Body::Patch(_) => NodeKind::Patch,
        Body::Ref(_) => NodeKind::Ref,
        Body::Watch(_) => NodeKind::Watch,
        Body::Def(_) => NodeKind::Def,
    }
}

fn content_hash(declarations: &[Declaration]) -> String {
    let sorted: BTreeMap<&str, serde_json::Value> = declarations
        .iter()
        .map(|node| {
            let content = json!({
                node.body.keyword(): node.body.value(),
                "forEach": node.for_each,
                "includeWhen": node.include_when,
                "readyWhen": node.ready_when,
                "propagateWhen": node.propagate_when,
                "finalizes": node.finalizes,
                "dependsOn": node.depends_on,
                "recheckAfter": node.recheck_after.map(|after| after.as_secs()),
                "force": node.force,
            });
            (node.id.as_str(), content)
        })
        .collect();
    sha256_hex(json!(sorted).to_string().as_bytes())
}

/// `nodes[0].template` + `spec.x` or `[1].x` or nothing.
pub(crate) fn join_path(base: &str, rest: &str) -> String {
    match rest.chars().next() {
        None => base.to_owned(),
        Some('[') => format!("{base}{rest}"),
        Some(_) => format!("{base}.{rest}"),
    }
}

#[cfg(test)]
mod tests;
