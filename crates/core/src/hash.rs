//! Hashes of pod templates. The hash alone decides whether a pod is up to date.
//!
//! A hash covers exactly the labels and annotations of a clique template and its pod spec, with the priority
//! class of the set in place of the template's own. Equivalent templates have the same hash: key order, `null`,
//! empty values and explicit defaults make no difference.
//!
//! The text of a hash is stored in labels and compared by later versions of this program. A change of it would
//! restart every pod of every workload. Therefore it does not depend on a library's encoding, on generated
//! schemas or on the field order of a struct, and tests pin the result.

use std::collections::BTreeMap;

use grove_api::{
    PodClique, PodCliqueSet, labels,
    pod_clique_set::{PodCliqueSetTemplate, PodCliqueTemplate},
};
use serde_json::{Map, Value};

mod canonical;
mod digest;

use digest::Digest;

/// The hash of one clique template, for the label `grove.io/pod-template-hash`.
pub fn pod_template_hash(
    template: &PodCliqueTemplate,
    priority_class_name: Option<&str>,
) -> String {
    let mut digest = Digest::default();
    feed(&mut digest, template, priority_class_name);
    digest.text()
}

/// The hash of all clique templates of a set, in their order.
pub fn generation_hash(set: &PodCliqueSet) -> String {
    let template = &set.spec.template;
    let mut digest = Digest::default();
    for clique in &template.cliques {
        feed(&mut digest, clique, priority_class_name(template));
    }
    digest.text()
}

/// The template hash of every clique of a set, by clique name.
pub fn pod_template_hashes(template: &PodCliqueSetTemplate) -> BTreeMap<String, String> {
    let priority = priority_class_name(template);
    let hash = |clique| pod_template_hash(clique, priority);
    template.cliques.iter().map(|clique| (clique.name.clone(), hash(clique))).collect()
}

/// The template hash that a PodClique was created or last updated with.
pub(crate) fn template_hash_label(clique: &PodClique) -> Option<&str> {
    let all = clique.metadata.labels.as_ref()?;
    all.get(labels::POD_TEMPLATE_HASH).map(String::as_str)
}

/// Whether a text has the form of our hashes. Those of other implementations have other lengths.
pub fn is_ours(hash: &str) -> bool {
    digest::is_text(hash)
}

fn priority_class_name(template: &PodCliqueSetTemplate) -> Option<&str> {
    template.priority_class_name.as_deref()
}

fn feed(digest: &mut Digest, template: &PodCliqueTemplate, priority_class_name: Option<&str>) {
    digest.strings(&template.labels);
    digest.strings(&template.annotations);
    digest.value(&Value::Object(canonical_pod_spec(template, priority_class_name)));
}

fn canonical_pod_spec(
    template: &PodCliqueTemplate,
    priority_class_name: Option<&str>,
) -> Map<String, Value> {
    let mut spec = canonical::pod_spec(&template.spec.pod_spec);
    spec.remove("priorityClassName");
    if let Some(name) = priority_class_name.filter(|name| !name.is_empty()) {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
    spec
}

#[cfg(test)]
mod tests;
