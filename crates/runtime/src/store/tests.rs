use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::view::MetaView;

fn view(name: &str, uid: &str, version: u64, gang: &str) -> MetaView {
    serde_json::from_value(json!({"metadata": {
        "name": name, "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
        "labels": {"gang": gang},
    }}))
    .unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

struct World {
    store: Store<MetaView>,
    by_gang: Index,
    changes: Arc<Mutex<Vec<String>>>,
}

fn world() -> World {
    let pods = Resource::namespaced("", "v1", "pods", "Pod");
    let mut builder = StoreBuilder::<MetaView>::new(pods, Metrics::new());
    let by_gang = builder.index(|meta| meta.labels.get("gang").map(str::to_owned));
    let store = builder.build();
    let changes = Arc::new(Mutex::new(Vec::new()));
    let log = changes.clone();
    store.on_change(move |change| {
        let version = |view: Option<&MetaView>| {
            view.map_or_else(|| "-".to_owned(), |v| v.metadata.resource_version.to_string())
        };
        let name = &change.new.or(change.old).unwrap().metadata.key.name;
        let initial = if change.initial { " initial" } else { "" };
        log.lock().unwrap().push(format!(
            "{name} {}→{}{initial}",
            version(change.old),
            version(change.new)
        ));
    });
    World { store, by_gang, changes }
}

impl World {
    fn changes(&self) -> Vec<String> {
        std::mem::take(&mut *self.changes.lock().unwrap())
    }

    fn gang(&self, gang: &str) -> Vec<String> {
        let views = self.store.by(self.by_gang, gang);
        views.iter().map(|v| v.metadata.key.name.to_string()).collect()
    }
}

#[test]
fn an_object_is_found_under_its_new_owner() {
    let pods = Resource::namespaced("", "v1", "pods", "Pod");
    let mut builder = StoreBuilder::<MetaView>::new(pods, Metrics::new());
    let by_owner = builder.index(|meta| meta.owner_uid().map(ToString::to_string));
    let store = builder.build();
    let owned = |version: u64, owner: &str| -> MetaView {
        serde_json::from_value(json!({"metadata": {
            "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": version.to_string(),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": "o", "uid": owner, "controller": true},
            ],
        }}))
        .unwrap()
    };
    store.upsert(owned(1, "before"));
    store.upsert(owned(2, "after"));
    assert_eq!((store.by(by_owner, "before").len(), store.by(by_owner, "after").len()), (0, 1));
}

#[test]
fn the_first_list_is_initial_and_a_relist_reports_only_differences() {
    let w = world();
    assert!(!w.store.is_synced());

    w.store.replace(vec![view("b", "1", 5, "g"), view("a", "2", 6, "g")], &BTreeSet::new(), 10);
    assert_eq!(w.changes(), ["b -→5 initial", "a -→6 initial"]);
    assert!(w.store.is_synced());

    w.store.replace(vec![view("a", "2", 6, "g"), view("c", "3", 12, "h")], &BTreeSet::new(), 20);
    assert_eq!(w.changes(), ["c -→12", "b 5→-"]);
    assert_eq!((w.gang("g"), w.gang("h")), (vec!["a".into()], vec!["c".into()]));
    assert_eq!(w.store.observed(), 20);
}

#[test]
fn older_events_are_ignored_unless_the_uid_is_new() {
    let w = world();
    w.store.upsert(view("a", "1", 7, "g"));
    w.store.upsert(view("a", "1", 6, "h"));
    w.store.upsert(view("a", "1", 7, "h"));
    assert_eq!(w.changes(), ["a -→7"]);

    w.store.delete(&key("a"), 6);
    assert_eq!(w.store.len(), 1, "a delete older than what we have is not ours");

    w.store.upsert(view("a", "2", 9, "h"));
    assert_eq!(w.changes(), ["a 7→9"]);
    assert_eq!((w.gang("g"), w.gang("h")), (vec![], vec!["a".into()]));
}

#[test]
fn a_list_replaces_newer_versions() {
    let w = world();
    w.store.replace(vec![view("a", "1", 50, "new")], &BTreeSet::new(), 60);
    w.changes();

    w.store.replace(vec![view("a", "1", 30, "old")], &BTreeSet::new(), 40);

    assert_eq!(w.changes(), ["a 50→30"]);
    assert_eq!((w.gang("old"), w.store.observed()), (vec!["a".to_owned()], 40));
}

#[test]
fn a_late_listener_gets_the_current_objects() {
    let w = world();
    w.store.upsert(view("a", "1", 7, "g"));
    let heard = Arc::new(AtomicUsize::new(0));

    let count = heard.clone();
    w.store.on_change(move |change| {
        assert!(change.initial == (change.new.unwrap().metadata.resource_version == 7));
        count.fetch_add(1, Ordering::SeqCst);
    });
    w.store.upsert(view("a", "1", 8, "g"));

    assert_eq!(heard.load(Ordering::SeqCst), 2);
}

#[test]
fn any_later_version_ends_the_wait_for_a_version() {
    let w = world();
    let done = Arc::new(AtomicUsize::new(0));
    let wait = |version| {
        let done = done.clone();
        w.store.when_observed(version, move || {
            done.fetch_add(1, Ordering::SeqCst);
        });
    };
    w.store.replace(vec![], &BTreeSet::new(), 10);

    wait(10);
    assert_eq!(done.load(Ordering::SeqCst), 1);
    wait(11);
    wait(12);
    wait(13);
    w.store.upsert(view("a", "1", 11, "g"));
    assert_eq!(done.load(Ordering::SeqCst), 2);
    w.store.delete(&key("a"), 12);
    assert_eq!(done.load(Ordering::SeqCst), 3);
    w.store.bookmark(99);
    assert_eq!(done.load(Ordering::SeqCst), 4);
}

#[test]
fn a_delete_a_relist_or_a_new_uid_ends_the_wait_for_a_deletion() {
    let endings: [fn(&Store<MetaView>); 3] = [
        |store| store.delete(&key("a"), 20),
        |store| store.replace(vec![], &BTreeSet::new(), 20),
        |store| store.upsert(view("a", "2", 20, "g")),
    ];
    for end in endings {
        let w = world();
        w.store.upsert(view("a", "1", 5, "g"));
        let done = Arc::new(AtomicUsize::new(0));
        let count = done.clone();
        w.store.when_gone(&key("a"), &"1".into(), move || {
            count.fetch_add(1, Ordering::SeqCst);
        });

        w.store.upsert(view("a", "1", 6, "g"));
        assert_eq!(done.load(Ordering::SeqCst), 0, "the uid is the same");
        end(&w.store);
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}

#[derive(Clone, Debug)]
enum Event {
    Upsert { name: u8, gang: u8 },
    Delete { name: u8 },
    Relist { keep: u8 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0..8_u8, 0..3_u8).prop_map(|(name, gang)| Event::Upsert { name, gang }),
        2 => (0..8_u8).prop_map(|name| Event::Delete { name }),
        1 => any::<u8>().prop_map(|keep| Event::Relist { keep }),
    ];
    prop::collection::vec(event, 0..100)
}

proptest! {
    /// Store, index and listeners agree with a plain map after all events.
    #[test]
    fn store_index_and_listeners_agree(events in events()) {
        let w = world();
        let mirror = Arc::new(Mutex::new(BTreeMap::new()));
        let copy = mirror.clone();
        w.store.on_change(move |change| {
            let mut mirror = copy.lock().unwrap();
            match (change.old, change.new) {
                (_, Some(new)) => mirror.insert(new.metadata.key.clone(), new.metadata.clone()),
                (Some(old), None) => mirror.remove(&old.metadata.key),
                (None, None) => unreachable!("a change has a side"),
            };
        });
        let mut model: BTreeMap<String, (u64, String)> = BTreeMap::new();
        for (version, event) in (1_u64..).zip(events) {
            match event {
                Event::Upsert { name, gang } => {
                    model.insert(format!("p{name}"), (version, format!("g{gang}")));
                    w.store.upsert(view(&format!("p{name}"), "u", version, &format!("g{gang}")));
                }
                Event::Delete { name } => {
                    model.remove(&format!("p{name}"));
                    w.store.delete(&key(&format!("p{name}")), version);
                }
                Event::Relist { keep } => {
                    model.retain(|name, _| keep & (1 << (name.as_bytes()[1] - b'0')) != 0);
                    let views = model.iter().map(|(n, (v, g))| view(n, "u", *v, g)).collect();
                    w.store.replace(views, &BTreeSet::new(), version);
                }
            }
            let stored: BTreeMap<String, (u64, String)> = w.store.all().iter().map(|v| {
                let gang = v.metadata.labels.get("gang").unwrap().to_owned();
                (v.metadata.key.name.to_string(), (v.metadata.resource_version, gang))
            }).collect();
            prop_assert_eq!(&stored, &model);
            for gang in ["g0", "g1", "g2"] {
                let expected: Vec<String> = model.iter()
                    .filter(|(_, (_, g))| g == gang).map(|(n, _)| n.clone()).collect();
                prop_assert_eq!(w.gang(gang), expected);
            }
            let mirrored: Vec<u64> =
                mirror.lock().unwrap().values().map(|m| m.resource_version).collect();
            prop_assert_eq!(mirrored, model.values().map(|(v, _)| *v).collect::<Vec<_>>());
        }
    }
}
