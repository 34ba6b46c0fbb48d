//! What wakes a PodCliqueSet.

use grove_api::pod_clique_set::PodCliqueSetStatus;
use grove_api::{PodClique, PodCliqueScalingGroup};
use grove_core::children::compute_domains as domains;
use grove_core::layout::Layout;
use grove_core::revision;
use grove_core::update::is_paused;
use grove_runtime::object::Object;
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::Priority::{ChildChange, UserChange};
use grove_runtime::queue::Queue;
use grove_runtime::resource::ObjectKey;
use grove_runtime::view::{Meta, MetaView, View as _};
use grove_runtime::wake::{WakeTable, by};

use crate::caches::views::{Pod, Revision, Set, TokenSecret};
use crate::caches::{Stores, set_of};
use crate::controllers::claims;

/// The wake table of sets. Failures of replicas and gangs wake their set as well, see
/// [`Problems`](crate::controllers::problems::Problems).
pub(crate) fn queue(stores: &Stores, env: &Env, stage: &Stage) -> Queue<ObjectKey> {
    let mut table = WakeTable::new(env, stage);
    let why = "the set changed, also by other controllers";
    table.on(&stores.sets, why, UserChange, by(own_facts), |set| vec![set.meta.key.clone()]);
    let why = "a clique changed its status";
    table.on(&stores.cliques.store, why, ChildChange, by(clique_facts), |one| {
        // A clique without a status adds nothing to the status of its set.
        if one.object.status.is_some() { key_of(&one.meta) } else { Vec::new() }
    });
    let why = "a group changed its status";
    table.on(&stores.groups.store, why, ChildChange, by(group_facts), |one| key_of(&one.meta));
    let why = "an access object of the start-order container changed";
    for store in [&stores.service_accounts, &stores.roles, &stores.role_bindings] {
        let facts = |one: &MetaView| {
            (one.metadata.uid.clone(), one.metadata.deleting, one.metadata.labels.clone())
        };
        table.on(store, why, ChildChange, by(facts), |one| key_of(&one.metadata));
    }
    table.on(&stores.secrets, why, ChildChange, by(secret_facts), |one| key_of(&one.meta));
    let why = "the legacy Secret is deleted when no pod mounts it; pods of another scheduler are reported";
    let mounts = |pod: &Pod| pod.mounts_legacy_token;
    table.on(&stores.pods, why, ChildChange, by(mounts), |pod| {
        if pod.mounts_legacy_token { key_of(pod.meta()) } else { Vec::new() }
    });
    let why = "a revision of the template changed";
    let revision = |one: &Revision| (one.meta.uid.clone(), one.observed.clone());
    table.on(&stores.revisions.store, why, ChildChange, by(revision), |one| key_of(&one.meta));
    let owner = |meta: &Meta| claims::set_of_claim(meta).into_iter().collect();
    stores.claims.wake(&mut table, &stores.sets, owner, |set| vec![set.meta.key.clone()]);
    stores.topologies.wake(&mut table, &stores.sets, |set| vec![set.meta.key.clone()]);
    let why = "deleted with the set";
    table.reads(&stores.gangs.store, why);
    table.reads(&stores.services.store, why);
    table.reads(&stores.autoscalers.store, why);
    if let Some(all) = &stores.compute_domains {
        table.reads(&all.store, why);
        let sets = stores.sets.clone();
        table.on_presence(&all.store, "ComputeDomains can be created, or no longer", move || {
            let using =
                sets.all().into_iter().filter(|set| domains::is_used(&Layout::of(&set.object)));
            using.map(|set| set.meta.key.clone()).collect()
        });
    }
    for store in stores.scheduler_objects.stores() {
        let sets = stores.sets.clone();
        table.on_presence(store, "the scheduler can do more, or less, for the set", move || {
            sets.all().iter().map(|set| set.meta.key.clone()).collect()
        });
    }
    table.into_queue()
}

fn key_of(meta: &Meta) -> Vec<ObjectKey> {
    set_of(meta).into_iter().collect()
}

/// The status counts because another controller may have changed it. The errors that we report do not:
/// nothing follows from them. Of the annotations, the one that is copied to revisions and the trigger count.
fn own_facts(set: &Set) -> impl PartialEq + use<> {
    let metadata = &set.object.metadata;
    let status = set.object.status.clone();
    let status = status.map(|status| PodCliqueSetStatus { last_errors: Vec::new(), ..status });
    let finalizers = metadata.finalizers.clone();
    let flags = [set.meta.deleting, is_paused(&set.object)];
    let cause = revision::change_cause(&set.object).map(str::to_owned);
    let annotations = (cause, set.reconcile_trigger());
    (set.meta.uid.clone(), set.meta.generation, flags, finalizers, status, annotations)
}

fn clique_facts(clique: &Object<PodClique>) -> impl PartialEq + use<> {
    (clique.meta.deleting, clique.meta.labels.clone(), clique.object.status.clone())
}

fn group_facts(group: &Object<PodCliqueScalingGroup>) -> impl PartialEq + use<> {
    (group.meta.deleting, group.object.status.clone())
}

fn secret_facts(secret: &TokenSecret) -> impl PartialEq + use<> {
    let meta = &secret.meta;
    (meta.uid.clone(), meta.deleting, meta.labels.clone(), secret.has_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_reconcile_trigger_wakes_the_set() {
        let [before, same, after] = ["1", "1", "2"].map(Set::with_reconcile_trigger);
        assert!(own_facts(&before) == own_facts(&same));
        assert!(own_facts(&before) != own_facts(&after));
    }
}
