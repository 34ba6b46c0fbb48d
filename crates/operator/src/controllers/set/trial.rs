//! Checks whether the API server would accept the pods of a new template, before an update replaces the first
//! ready pod.
//!
//! Admission refuses what is wrong in any cluster. A dry run checks policies, limits and webhooks of the
//! cluster: one pod for each clique template that is new.

use grove_api::error_code::ErrorCode;
use grove_core::children::resource_claims::PodClaims;
use grove_core::children::{self, owner};
use grove_core::layout::{self, Layout};
use grove_core::pods::{self, PodContext};
use grove_core::start_order;
use grove_runtime::class::{Class, Classed as _};
use grove_runtime::resource::ObjectKey;
use grove_runtime::write::{Verb, Write, WriteError};

use super::observe::{Children, Observed};
use crate::caches::PODS;
use crate::controllers::context::Context;
use crate::controllers::error::ReconcileError;
use crate::controllers::refusals::Refusal;

/// Tries the new templates of a set; the error of the first one whose pods are refused.
pub(super) async fn new_templates(
    context: &Context,
    observed: &Observed,
    children: &Children,
) -> Result<(), ReconcileError> {
    if let Some(refusal) = refusal(context, observed) {
        return Err(refusal.error.until(refusal.retry_at));
    }
    let (key, template) = (&observed.set.meta.key, template_key(observed));
    let (clock, rng) = (&context.env.clock, &context.env.rng);
    for write in pods_to_try(observed, children, context.init_image.as_deref())? {
        let Err(error) = context.writer.try_create(&write).await else { continue };
        if !is_refusal(&error) {
            return Err(ReconcileError::failed(ErrorCode::CreatePod, &error));
        }
        let error = ReconcileError::rule(
            ErrorCode::CreatePod,
            format!("the update does not start, because the API server refuses its pods: {error}"),
        );
        let retry_at = context.refused_updates.record(key, &template, &error, clock.now(), rng);
        return Err(error.until(retry_at));
    }
    context.refused_updates.forget(key);
    Ok(())
}

/// Whether the template was refused a moment ago, so that no step of its update is due.
pub(super) fn is_refused(context: &Context, observed: &Observed) -> bool {
    refusal(context, observed).is_some()
}

fn refusal(context: &Context, observed: &Observed) -> Option<Refusal> {
    let now = context.env.clock.now();
    context.refused_updates.get(&observed.set.meta.key, &template_key(observed), now)
}

fn template_key(observed: &Observed) -> String {
    format!("{} {}", observed.set.meta.uid, observed.set.hashes().generation)
}

/// An exceeded quota is no refusal: it has room again when the outdated pods are deleted.
fn is_refusal(error: &WriteError) -> bool {
    let is_quota = error.status().is_some_and(|status| status.message.contains("exceeded quota"));
    !is_quota && matches!(error.class(), Class::Invalid | Class::Denied)
}

/// One pod for each clique template that no PodClique of the first replica runs.
fn pods_to_try(
    observed: &Observed,
    children: &Children,
    init_image: Option<&str>,
) -> Result<Vec<Write>, ReconcileError> {
    let layout = Layout::of(&observed.set.object);
    let mut places = layout.standalone_cliques(0);
    for group in layout.groups() {
        places.extend(layout.member_cliques(0, group, 0));
    }
    let is_new = |place: &layout::Clique<'_>| {
        let live = children.cliques.get(&place.name).and_then(|one| one.object.status.as_ref());
        let runs = live.and_then(|status| status.current_pod_template_hash.as_ref());
        runs != observed.set.hashes().templates.get(&place.template.name)
    };
    let places = places.into_iter().filter(is_new);
    places.map(|place| pod_to_try(observed, &layout, &place, init_image)).collect()
}

fn pod_to_try(
    observed: &Observed,
    layout: &Layout<'_>,
    place: &layout::Clique<'_>,
    init_image: Option<&str>,
) -> Result<Write, ReconcileError> {
    let set = &observed.set.object;
    let hash = observed.set.hashes().templates.get(&place.template.name);
    let hash = hash.map(String::as_str).unwrap_or_default();
    let mut clique = children::pod_clique(layout, place, hash, &owner::of_set(set), None);
    // The owner of the pod: any uid will do, nothing is stored.
    clique.metadata.uid.clone_from(&set.metadata.uid);
    let context = PodContext {
        set: layout.set_name(),
        set_replica: place.set_replica,
        pod_clique: &clique,
        parents: &start_order::parents(layout, place),
        init_image,
    };
    let rule = |error: pods::BuildError| ReconcileError::rule(error.code(), error);
    let mut body = pods::draft(&context, 0).map_err(rule)?;
    PodClaims::of(layout, place).add_to(0, &mut body);
    pods::finish(&context, 0, &mut body).map_err(rule)?;
    let key = ObjectKey::new(layout.namespace(), "");
    Ok(Write { resource: PODS, key, verb: Verb::Create { body }, reason: "try a new template" })
}
