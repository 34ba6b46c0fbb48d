use super::*;

const OPERATOR: &str = "system:serviceaccount:grove-system:grove-operator";

fn guards() -> Guards {
    Guards { operator: OPERATOR.to_owned(), exempt: vec!["system:serviceaccount:a:b".to_owned()] }
}

fn request(operation: Operation, user: &'static str) -> ManagedRequest<'static> {
    ManagedRequest {
        operation,
        user,
        is_pod: false,
        namespace: "team-a",
        name: "demo-0",
        part_of: Some("demo"),
    }
}

fn decide(request: &ManagedRequest<'_>, found: Option<Protection>) -> Authorization {
    let lookup = |set: &str| {
        assert_eq!(set, "demo");
        Ok::<_, ()>(found)
    };
    authorize(request, &guards(), lookup).unwrap()
}

fn deny(message: &str) -> Authorization {
    Authorization::Deny { message: message.to_owned() }
}

#[test]
fn other_users_may_not_change_managed_objects() {
    let instead = "the operator manages it for PodCliqueSet team-a/demo. Change the PodCliqueSet \
                   instead, annotate it with grove.io/disable-managed-resource-protection=true, or add \
                   the user \"alice\" to authorizer.exemptServiceAccountUserNames of the operator \
                   configuration";
    let what = "admission denied, creation/updation of resource: team-a/demo-0 is not allowed";
    let change = &format!("{what}: {instead}");
    let what = "admission denied, deletion of resource: team-a/demo-0 is not allowed";
    let delete = &format!("{what}: {instead}");
    for (operation, expected) in [
        (Operation::Connect, Authorization::allow()),
        (Operation::Create, deny(change)),
        (Operation::Update, deny(change)),
        (Operation::Delete, deny(delete)),
        (Operation::Other, deny("Unhandled operation. Admission denied.")),
    ] {
        assert_eq!(decide(&request(operation, "alice"), Some(Protection::On)), expected);
    }
}

#[test]
fn the_operator_and_exempt_users_may_change_managed_objects() {
    for user in [OPERATOR, "system:serviceaccount:a:b"] {
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            let decision = decide(&request(operation, user), Some(Protection::On));
            assert_eq!(decision, Authorization::allow());
        }
    }
}

#[test]
fn all_users_may_delete_pods_but_not_change_them() {
    let pod = |operation| ManagedRequest { is_pod: true, ..request(operation, "alice") };

    let protected = Some(Protection::On);
    assert_eq!(decide(&pod(Operation::Delete), protected), Authorization::allow());
    assert!(matches!(decide(&pod(Operation::Update), protected), Authorization::Deny { .. }));
}

#[test]
fn unprotected_sets_and_objects_without_a_set_may_be_changed() {
    let update = request(Operation::Update, "alice");
    assert_eq!(decide(&update, Some(Protection::Off)), Authorization::allow());
    assert_eq!(
        decide(&update, None),
        Authorization::allow_with(
            "PodCliqueSet team-a/demo not found, resource team-a/demo-0 is not protected"
                .to_owned()
        )
    );
    assert_eq!(
        decide(&ManagedRequest { part_of: None, ..update }, Some(Protection::On)),
        Authorization::allow_with(
            "missing required label app.kubernetes.io/part-of on resource team-a/demo-0".to_owned()
        )
    );
}

#[test]
fn the_error_of_a_lookup_is_returned() {
    let result = authorize(&request(Operation::Update, "alice"), &guards(), |_| Err("timeout"));

    assert_eq!(result, Err("timeout"));
}

#[test]
fn only_the_value_true_disables_the_protection() {
    let key = annotations::DISABLE_MANAGED_RESOURCE_PROTECTION.to_owned();
    for (value, expected) in
        [("true", Protection::Off), ("True", Protection::On), ("", Protection::On)]
    {
        let annotations = BTreeMap::from([(key.clone(), value.to_owned())]);
        assert_eq!(Protection::of(Some(&annotations)), expected);
    }
    assert_eq!(Protection::of(None), Protection::On);
}
