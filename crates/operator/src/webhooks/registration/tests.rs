use super::*;

/// The operator inside a cluster.
fn users() -> Vec<String> {
    vec!["system:serviceaccount:grove-system:grove-operator".to_owned()]
}

fn by_service() -> Address {
    let (namespace, name) = ("grove-system".to_owned(), "grove-operator".to_owned());
    Address::Service { namespace, name, port: 2750 }
}

fn by_url(port: u16) -> Address {
    Address::Url(format!("https://127.0.0.1:{port}"))
}

/// A configuration as the API server stores it: with defaults, and without nulls.
fn stored(registration: &Registration, address: &Address) -> Value {
    let write = registration.register(address, &users(), None, None).unwrap().unwrap();
    let Verb::Create { mut body } = write.verb else { panic!("created") };
    body["metadata"]["uid"] = json!("u");
    body["metadata"]["resourceVersion"] = json!("7");
    let webhook = &mut body["webhooks"][0];
    webhook["namespaceSelector"] = json!({});
    let config = webhook["clientConfig"].as_object_mut().unwrap();
    config.retain(|_, value| !value.is_null());
    config.insert("caBundle".to_owned(), json!("Y2E="));
    body
}

#[test]
fn the_installed_configurations_are_those_that_the_operator_would_create() {
    let manifests = include_str!("../../../../../deploy/operator/webhooks.yaml");
    let installed: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    let registrations = Registrar::registrations(false);
    assert_eq!(installed.len(), registrations.len());

    for (installed, registration) in installed.iter().zip(registrations) {
        let created = registration.register(&by_service(), &users(), None, None).unwrap().unwrap();
        let Verb::Create { body } = created.verb else { panic!("created") };
        assert_eq!(installed["metadata"], body["metadata"]);
        let (installed, created) = (&installed["webhooks"][0], &body["webhooks"][0]);
        assert_eq!(merge::missing(installed, created), None, "{}", registration.object);
    }
    let installed: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    for (mut installed, registration) in installed.into_iter().zip(Registrar::registrations(false))
    {
        installed["metadata"]["resourceVersion"] = json!("1");
        let write = registration.register(&by_service(), &users(), None, Some(&installed)).unwrap();
        assert_eq!(write, None);
    }
}

#[test]
fn a_configuration_is_written_when_it_leads_elsewhere_and_keeps_its_bundle() {
    for registration in ALL {
        let address = by_url(1);
        let live = stored(&registration, &address);
        assert_eq!(registration.register(&address, &users(), None, Some(&live)).unwrap(), None);

        let write =
            registration.register(&by_url(2), &users(), None, Some(&live)).unwrap().unwrap();
        let Verb::Merge { patch, only_if, .. } = write.verb else { panic!("a patch") };
        let config = &patch["webhooks"][0]["clientConfig"];
        assert_eq!(config["url"], format!("https://127.0.0.1:2{}", registration.path));
        assert_eq!((&config["service"], &config["caBundle"]), (&Value::Null, &json!("Y2E=")));
        assert_eq!(only_if.resource_version, Some(7));
    }
}

#[test]
fn what_the_installation_adjusted_stays_and_a_url_becomes_the_service() {
    let mut live = stored(&VALIDATING, &by_service());
    live["webhooks"][0]["timeoutSeconds"] = json!(3);
    assert_eq!(VALIDATING.register(&by_service(), &users(), None, Some(&live)).unwrap(), None);

    live["webhooks"][0]["clientConfig"] = json!({ "url": "https://127.0.0.1:1/x" });
    let write = VALIDATING.register(&by_service(), &users(), None, Some(&live)).unwrap().unwrap();
    let Verb::Merge { patch, .. } = write.verb else { panic!("a patch") };
    let config = &patch["webhooks"][0]["clientConfig"];
    assert_eq!((&config["url"], &config["service"]["port"]), (&Value::Null, &json!(2750)));
}

#[test]
fn configurations_of_other_owners_are_neither_changed_nor_deleted() {
    let ours = stored(&AUTHORIZER, &by_service());
    let foreign = |change: fn(&mut Value)| {
        let mut live = ours.clone();
        live["metadata"]["labels"] = json!(null);
        change(&mut live);
        live
    };
    // An installation without our label has our webhook.
    let unlabelled = foreign(|_| {});
    assert!(AUTHORIZER.register(&by_service(), &users(), None, Some(&unlabelled)).is_ok());
    let write = AUTHORIZER.unregister(&unlabelled).unwrap();
    let Verb::Delete { only_if, .. } = write.verb else { panic!("a delete") };
    assert_eq!(only_if.uid, "u".into());

    let others: [fn(&mut Value); 3] = [
        |live| live["webhooks"][0]["name"] = json!("pods.example.com"),
        |live| live["webhooks"] = json!([]),
        |live| {
            let first = live["webhooks"][0].clone();
            live["webhooks"].as_array_mut().unwrap().push(first);
        },
    ];
    for change in others {
        let live = foreign(change);
        let taken = AUTHORIZER.register(&by_service(), &users(), None, Some(&live)).unwrap_err();
        let object = "ValidatingWebhookConfiguration authorizer-webhook already exists";
        assert!(taken.to_string().starts_with(object), "{taken}");
        assert_eq!(AUTHORIZER.unregister(&live), None);
    }
}

#[test]
fn a_webhook_that_is_off_has_no_configuration() {
    let names = |authorizer| -> Vec<&str> {
        Registrar::registrations(authorizer).iter().map(|one| one.object).collect()
    };
    let always = [
        "podcliqueset-defaulting-webhook",
        "podcliqueset-validating-webhook",
        "clustertopology-validating-webhook",
    ];
    assert_eq!(names(false), always);
    assert_eq!(names(true)[..3], always);
    assert_eq!(names(true)[3], "authorizer-webhook");
}

#[test]
fn the_authorizer_is_removed_with_the_installation() {
    let installed = stored(&VALIDATING, &by_service());
    let owner = owner_reference(&VALIDATING, &installed);
    let write = AUTHORIZER.register(&by_service(), &users(), Some(&owner), None).unwrap().unwrap();
    let Verb::Create { body } = write.verb else { panic!("created") };
    let expected = json!([{
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "name": "podcliqueset-validating-webhook", "uid": "u",
    }]);
    assert_eq!(body["metadata"]["ownerReferences"], expected);
}

#[test]
fn requests_of_every_user_that_the_operator_acts_as_are_not_reviewed() {
    let users = ["system:serviceaccount:a:b".to_owned(), "admin \"x\"".to_owned()];
    let others = r#"request.userInfo.username != "system:serviceaccount:a:b" && request.userInfo.username != "admin \"x\"""#;
    // That user may write bindings, which the operator does not.
    let of_topologies =
        format!(r#"request.resource.resource == "clustertopologybindings" || {others}"#);
    for (registration, expression) in [(AUTHORIZER, others), (TOPOLOGIES, &of_topologies)] {
        let conditions = &registration.desired(&by_url(1), &users)["matchConditions"];
        assert_eq!(*conditions, json!([{ "name": "not-the-operator", "expression": expression }]));
    }
    assert_eq!(VALIDATING.desired(&by_url(1), &users)["matchConditions"], Value::Null);
}
