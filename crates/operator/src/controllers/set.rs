//! The controller of PodCliqueSets: finalizer, access objects of the start-order container, history of templates,
//! the replica that is being updated, and the status of the set.

mod access;
mod decide;
mod observe;
mod trial;
mod wake;

use futures::future::join;
use grove_api::PodCliqueSet;
use grove_api::error_code::{ErrorCode, LastError};
use grove_api::pod_clique_set::PodCliqueSetStatus;
use grove_core::layout::Layout;
use grove_core::status::{Outcome, ResourceState, SchedulerState};
use grove_core::update;
use grove_runtime::class::{Class, Classed as _};
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::plan::act;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::Write;

pub(crate) use self::wake::queue;

use self::access::Token;
use self::decide::Decision;
pub(crate) use self::decide::NAME;
use self::observe::{Children, Observed};
use super::claims::RESOURCE_CLAIMS;
use super::compute_domains;
use super::context::Context;
use super::error::{self, ReconcileError};
use super::events;
use super::problems::BackendProblem;
use crate::caches::{REVISIONS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS};

/// Reconciles one set.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(observed) = observe::observe(&context.stores, &attempt.key) else {
        context.pace_of_sets.forget(&attempt.key);
        context.refused_updates.forget(&attempt.key);
        return Ok(None);
    };
    let Decision { first, rest, refused } = decide::decide(&observed);
    let mut acted = act(&first, &context.writer, &attempt.fence).await;
    let now = context.env.clock.wall();
    let token = access::token(&observed.set, &observed.access, now);
    let mut access = access::Synced::default();
    if acted.failed.is_empty() && !observed.set.meta.deleting {
        let rest = act(&rest, &context.writer, &attempt.fence);
        let sync = access::sync(context, &attempt.fence, &observed.set, &observed.access);
        let (others, synced) = join(rest, sync).await;
        acted.extend(others);
        access = synced;
        access.errors.extend((token == Token::Late).then(|| access::late(&observed.set)));
        access.errors.extend(access::no_image(&observed.set, context.init_image.as_deref()));
    }
    let failed = error::of_plan(&acted, code, attempt.failures).or(refused);
    let known = observed.set.object.status.as_ref().map(|status| &*status.last_errors);
    let known = known.unwrap_or_default();
    let emitted = events::claims_missing(&observed.set, failed.as_ref(), known).into_iter();
    let emitted = emitted.chain(access::refusals(&observed.set, &access.errors, known));
    events::emit(&context.events.component(NAME), emitted);
    let failures = || failed.iter().chain(&access.errors);
    let mut errors: Vec<_> = failures().filter_map(|error| error.report(now)).collect();
    errors.extend(context.problems.of_replicas(&attempt.key));
    // Errors that are retried come before errors that wait for a change.
    let failed = failures().min_by_key(|error| error.class() == Class::Invalid).cloned();
    // Writes wake the set again, and failures without a report are transient.
    let is_at_rest = failed.is_none() && acted.done.is_empty() && !access.has_written;
    if observed.set.meta.deleting || errors.is_empty() && !is_at_rest {
        return failed.map_or(Ok(None), Err);
    }
    let replicas = u32::try_from(observed.set.object.spec.replicas).unwrap_or_default();
    let now_or_later = context.pace_of_sets.wait(&attempt.key, replicas, context.env.clock.now());
    // The whole set waits for the next step of an update, which is cheap to detect.
    let is_due = || !trial::is_refused(context, &observed) && decide::update_is_due(&observed);
    if let Some(due) = now_or_later.filter(|_| !is_due()) {
        return failed.map_or(Ok(Some(due)), |error| Err(error.with_due(Some(due))));
    }
    let children = observe::children(&context.stores, &attempt.key);
    let parts = decide::errors_of_parts(&children);
    errors.extend(parts.iter().cloned());
    let mut next = next_status(context, &observed, &children, (&errors, token));
    let mut failed = failed;
    if update::set::is_first_turn(&observed.set.object, &next)
        && let Err(refused) = trial::new_templates(context, &observed, &children).await
    {
        errors.splice(0..0, refused.report(now));
        next = next_status(context, &observed, &children, (&errors, token));
        update::set::withhold_turn(&mut next);
        failed = failed.or(Some(refused));
    }
    let report = decide::report(&observed, next, &parts);
    let about = (PodCliqueSet::KIND, &attempt.key);
    let reported = context.reporter.report(about, &attempt, report).await;
    reported.map_err(|error| ReconcileError::failed(ErrorCode::UpdatePcsStatus, &error))?;
    let deadline = match token {
        Token::Awaited { until } => until,
        Token::Settled | Token::Late => None,
    };
    let due = context.earlier(None, deadline);
    failed.map_or(Ok(due), |error| Err(error.with_due(due)))
}

/// The next status of a set with these errors, whose start-order containers have their token or wait for it.
fn next_status(
    context: &Context,
    observed: &Observed,
    children: &Children,
    (errors, token): (&[LastError], Token),
) -> PodCliqueSetStatus {
    let set = &observed.set.object;
    let generation = set.metadata.generation;
    let outcome = match token {
        _ if !errors.is_empty() => Outcome::Failed { generation, errors },
        Token::Awaited { .. } => Outcome::Waiting,
        Token::Settled | Token::Late => Outcome::Complete { generation },
    };
    let problem = context.problems.with_scheduler(&observed.set.meta.key);
    let limit = limit(context, set, children);
    let scheduler = SchedulerState {
        problem: problem.as_ref().map(BackendProblem::parts),
        limit: limit.as_ref().map(BackendProblem::parts),
    };
    let claims = context.stores.claims.problem(set);
    let domains = compute_domains::problem(&context.stores, &Layout::of(set));
    let resources = ResourceState {
        claims: claims.as_ref().map(|(reason, message)| (*reason, message.as_str())),
        domains: domains.as_ref().map(|(reason, message)| (*reason, message.as_str())),
    };
    decide::status(observed, children, outcome, scheduler, resources, context.env.clock.wall())
}

/// The limitations of the scheduler of a set.
fn limit(context: &Context, set: &PodCliqueSet, children: &Children) -> Option<BackendProblem> {
    let mut cliques = set.spec.template.cliques.iter();
    let name = cliques.find_map(|clique| clique.spec.pod_spec.scheduler_name());
    let backend = context.backends.for_pods(name)?;
    let mut limitations = backend.limitations(set, &context.stores.scheduler_objects);
    // Only the default scheduler can change, and only with several backends.
    if name.is_none() && context.backends.all().count() > 1 {
        let pods = children.cliques.values().flat_map(|one| context.stores.pods_of(&one.meta.uid));
        limitations.extend(decide::left_behind(pods, backend.name()));
    }
    let messages: Vec<_> = limitations.iter().map(|one| one.message.as_str()).collect();
    let (reason, message) = (limitations.first()?.reason.into(), messages.join("; "));
    Some(BackendProblem { reason, message })
}

fn code(write: &Write) -> ErrorCode {
    let resource = &write.resource;
    if *resource == SERVICE_ACCOUNTS {
        ErrorCode::SyncServiceAccount
    } else if *resource == ROLES {
        ErrorCode::SyncRole
    } else if *resource == ROLE_BINDINGS {
        ErrorCode::SyncRoleBinding
    } else if *resource == SECRETS {
        ErrorCode::CreateSecret
    } else if *resource == REVISIONS {
        ErrorCode::SyncControllerRevision
    } else if *resource == RESOURCE_CLAIMS {
        ErrorCode::SyncPcsResourceClaim
    } else if *resource == Resource::of::<PodCliqueSet>() {
        ErrorCode::UpdatePcsStatus
    } else {
        ErrorCode::DeletePcsReplica
    }
}
