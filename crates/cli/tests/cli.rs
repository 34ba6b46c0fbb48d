//! The binary from outside: what it prints, where, and how it ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod compared;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use grove_api::crd;
use serde_json::{Value, json};

fn grove(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(args)
        // The terminal of whoever runs the tests must not shape the help text.
        .env_remove("COLUMNS")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap()
}

/// Standard output of a call that succeeds and says nothing on standard error.
fn stdout(args: &[&str]) -> String {
    let output = grove(args);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and standard error of a call that fails and says nothing on standard output.
fn failure(args: &[&str]) -> (i32, String) {
    let output = grove(args);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A directory of this test binary that does not exist yet.
fn fresh_directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    path
}

#[test]
fn help_lists_commands_and_exit_codes() {
    insta::assert_snapshot!(stdout(&["--help"]));
}

#[test]
fn help_of_a_command_shows_how_to_use_it() {
    insta::assert_snapshot!("help_version", stdout(&["version", "--help"]));
    insta::assert_snapshot!("help_crds", stdout(&["crds", "--help"]));
    insta::assert_snapshot!("help_validate", stdout(&["validate", "--help"]));
    insta::assert_snapshot!("help_backends", stdout(&["backends", "--help"]));
    insta::assert_snapshot!("help_backend_check", stdout(&["backend", "check", "--help"]));
    insta::assert_snapshot!("help_operator", stdout(&["operator", "--help"]));
    insta::assert_snapshot!("help_tree", stdout(&["tree", "--help"]));
    insta::assert_snapshot!("help_topology", stdout(&["topology", "--help"]));
    insta::assert_snapshot!("help_rollout", stdout(&["rollout", "--help"]));
    insta::assert_snapshot!("help_completion", stdout(&["completion", "--help"]));
    for command in ["status", "history", "pause", "resume", "undo", "restart"] {
        let name = format!("help_rollout_{command}");
        insta::assert_snapshot!(name, stdout(&["rollout", command, "--help"]));
    }
}

#[test]
fn plugin_of_kubectl_is_the_same_program_under_another_name() {
    let directory = fresh_directory("plugin");
    fs::create_dir_all(&directory).unwrap();
    let plugin = directory.join("kubectl-grove");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_grove"), &plugin).unwrap();
    let output = Command::new(&plugin).args(["rollout", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("Usage: kubectl grove rollout <COMMAND>"), "{help}");
    let output = Command::new(&plugin).args(["version"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), stdout(&["version"]));
}

#[test]
fn shells_get_their_completion_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&["completion", shell]);
        assert!(script.contains("grove") && script.contains("all-namespaces"), "{shell}");
    }
}

#[test]
fn all_namespaces_and_one_set_exclude_each_other() {
    for args in [
        &["tree"][..],
        &["tree", "demo", "-A"],
        &["tree", "-A", "-n", "x"],
        &["tree", "-A", "--watch"],
        &["rollout", "status", "demo", "-A"],
        &["rollout", "history", "-A", "--revision", "1"],
    ] {
        let (code, text) = failure(args);
        assert_eq!(code, 1, "{args:?}: {text}");
    }
}

#[test]
fn an_operator_with_an_invalid_topology_does_not_start() {
    let directory = fresh_directory("topology-configuration");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.yaml");
    let level = |domain: &str, key: &str| format!("{{domain: {domain}, key: {key}}}");
    let cases = [
        (vec![], "topology.levels: Required value: levels are required"),
        (
            vec![level("rack", "a"), level("rack", "b")],
            "topology.levels[1].domain: Duplicate value",
        ),
        (vec![level("rack", "a"), level("host", "a")], "topology.levels[1].key: Duplicate value"),
        (vec![level("shelf", "a")], "topology.levels[0].domain: Invalid value: \"shelf\""),
        (vec![level("rack", "a b")], "topology.levels[0].key: Invalid value: \"a b\""),
    ];
    for (levels, expected) in cases {
        let levels = levels.join(", ");
        let text = format!(
            "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n\
             topology: {{enabled: true, levels: [{levels}]}}\n"
        );
        fs::write(&file, text).unwrap();
        let (code, error) = failure(&["operator", "--config", file.to_str().unwrap()]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_shape_that_makes_no_sense_is_refused() {
    let (code, text) = failure(&["topology", "--fits", "cpu=4,nvidia.com/gpu"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("\"nvidia.com/gpu\" is not RESOURCE=QUANTITY"), "{text}");
}

#[test]
fn version_names_binary_kubernetes_and_apis() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        stdout(&["version"]),
        format!(
            "grove {version}\nKubernetes: 1.36, 1.37\nAPIs: grove.io/v1alpha1, \
             scheduler.grove.io/v1alpha1, operator.config.grove.io/v1alpha1\n"
        )
    );
    let answer: Value = serde_json::from_str(&stdout(&["version", "--output", "json"])).unwrap();
    assert_eq!(
        answer,
        json!({
            "version": version,
            "kubernetesVersions": ["1.36", "1.37"],
            "apiVersions": [
                "grove.io/v1alpha1",
                "scheduler.grove.io/v1alpha1",
                "operator.config.grove.io/v1alpha1",
            ],
        })
    );
    assert_eq!(stdout(&["--version"]), format!("grove {version}\n"));
}

#[test]
fn crds_are_one_yaml_stream() {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&stdout(&["crds"])).unwrap();

    let expected: Vec<Value> = crd::all().into_iter().map(|crd| crd.object).collect();
    assert_eq!(documents, expected);
}

#[test]
fn crds_can_be_written_as_files() {
    let directory = fresh_directory("crds").join("new");

    assert_eq!(stdout(&["crds", "--output-dir", directory.to_str().unwrap()]), "");

    for crd in crd::all() {
        assert_eq!(fs::read_to_string(directory.join(&crd.file_name)).unwrap(), crd.to_yaml());
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), crd::all().len());
}

#[test]
fn bad_arguments_end_with_code_one_and_a_hint() {
    for (args, expected) in [
        (&["crsd"][..], "error: unrecognized subcommand 'crsd'"),
        (&["version", "--output", "xml"], "error: invalid value 'xml' for '--output <OUTPUT>'"),
        (&["crds", "extra"], "error: unexpected argument 'extra' found"),
        (
            &["rollout", "status", "demo", "--timeout=-3s"],
            "error: invalid value '-3s' for '--timeout <DURATION>': must not be negative",
        ),
    ] {
        let (code, text) = failure(args);
        assert_eq!(code, 1, "{text}");
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("--help"), "{text}");
    }
    let (code, text) = failure(&[]);
    assert_eq!(code, 1);
    assert!(text.contains("Usage: grove <COMMAND>"), "{text}");
}

#[test]
fn cluster_that_cannot_be_reached_is_a_failure() {
    let directory = fresh_directory("unreachable");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("kubeconfig");
    // Nothing listens on this port.
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    });
    fs::write(&file, kubeconfig.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for (args, expected) in [
        (&["tree", "demo"][..], "error: cannot list podcliquesets.grove.io: connection:"),
        (&["rollout", "status", "demo"], "error: cannot list podcliquesets.grove.io: connection:"),
        (&["rollout", "history", "demo"], "error: cannot read PodCliqueSet n/demo:"),
        (&["rollout", "pause", "demo"], "error: cannot read PodCliqueSet n/demo:"),
        (&["rollout", "undo", "demo"], "error: cannot read PodCliqueSet n/demo:"),
        (&["rollout", "restart", "demo"], "error: cannot read PodCliqueSet n/demo:"),
        (&["tree", "-A"], "error: cannot list the PodCliqueSets of all namespaces:"),
        (
            &["validate", "-f", "../../examples/minimal.yaml", "--live"],
            "error: cannot list the ClusterTopologyBindings:",
        ),
    ] {
        let (code, text) = failure(&[args, &["--kubeconfig", file]].concat());
        assert_eq!(code, 6, "{text}");
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn directory_that_cannot_be_made_is_named() {
    let directory = fresh_directory("blocked");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("crds");

    let (code, text) = failure(&["crds", "--output-dir", below.to_str().unwrap()]);

    assert_eq!(code, 6);
    let expected = format!("error: cannot create directory {}: ", below.display());
    assert!(text.starts_with(&expected), "{text}");
}

#[test]
fn reader_that_goes_away_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_grove"))
        .arg("crds")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Far more than a pipe holds is still to be written when its other end closes.
    drop(child.stdout.take());

    let output = child.wait_with_output().unwrap();

    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Exit code, standard output and standard error of `grove validate` as one text.
fn validate(args: &[&str]) -> String {
    let output = grove(&[&["validate"], args].concat());
    let [findings, notes] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    format!(
        "exit code {}\n--- findings\n{findings}--- notes\n{notes}",
        output.status.code().unwrap()
    )
}

#[test]
fn manifests_with_errors_are_refused_with_one_line_per_finding() {
    insta::assert_snapshot!(validate(&["-f", "tests/manifests/wrong.yaml"]));
}

#[test]
fn directory_means_its_manifests_in_order_and_the_configuration_decides() {
    let args = ["-f", "tests/manifests/several"];

    insta::assert_snapshot!("validate_directory", validate(&args));

    let only_a = ["-f", "tests/manifests/several/a.yaml", "--config", "tests/manifests/kai.yaml"];
    insta::assert_snapshot!("validate_with_configuration", validate(&only_a));
}

#[test]
fn manifest_without_errors_is_accepted_from_standard_input_too() {
    let example = "../../examples/minimal.yaml";
    let accepted =
        "exit code 0\n--- findings\n--- notes\nPodCliqueSets: 1, errors: 0, warnings: 0\n";
    assert_eq!(validate(&["--filename", example]), accepted);
    let output = Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(["validate", "-f", "-"])
        .stdin(fs::File::open(example).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let twice = validate(&["-f", example, "-f", example]);
    assert!(twice.contains("PodCliqueSets: 2, errors: 0"), "{twice}");
}

#[test]
fn constraints_are_checked_against_the_topologies_that_are_known() {
    let (sets, topologies) = ("tests/manifests/topology/sets.yaml", "tests/manifests/topology");
    let [bindings, managed] =
        ["bindings", "managed"].map(|name| format!("{topologies}/{name}.yaml"));
    insta::assert_snapshot!("validate_unknown_topology", validate(&["-f", sets]));
    let given = ["-f", sets, "--topology", &bindings, "--topology", &managed];
    insta::assert_snapshot!("validate_topology", validate(&given));
    let bindings_only = ["-f", sets, "--topology", &bindings];
    insta::assert_snapshot!("validate_topology_without_managed", validate(&bindings_only));
    let among_manifests = ["-f", sets, "-f", &managed];
    insta::assert_snapshot!("validate_topology_among_manifests", validate(&among_manifests));
    let off = format!("{topologies}/off.config");
    let off = ["-f", sets, "--topology", &managed, "--config", &off];
    insta::assert_snapshot!("validate_topology_off", validate(&off));
    let wrong = format!("{topologies}/wrong.yaml");
    insta::assert_snapshot!("validate_wrong_topology", validate(&["-f", &wrong]));
}

#[test]
fn verdicts_about_manifests_are_those_of_the_cluster() {
    for case in compared::cases() {
        let (code, text) = compared::validate(&case.text);
        assert_eq!(code, i32::from(case.refused), "{}: {text}", case.name);
        let rust = ["expected struct", "expected i32", "invalid type"];
        assert!(!rust.iter().any(|words| text.contains(words)), "{}: {text}", case.name);
    }
}

#[test]
fn missing_template_is_one_finding() {
    for name in ["no template", "template is null", "no spec but an empty one"] {
        let case = compared::cases().into_iter().find(|case| case.name == name).unwrap();
        let (_, text) = compared::validate(&case.text);
        assert!(text.contains("errors: 1,"), "{name}: {text}");
        assert!(text.contains("spec.template.cliques: Required value"), "{name}: {text}");
    }
}

#[test]
fn configuration_that_cannot_be_used_ends_with_code_two() {
    let manifest = "../../examples/minimal.yaml";
    for (config, expected) in [
        (
            "tests/manifests/absent.yaml",
            "error: cannot read tests/manifests/absent.yaml: No such file",
        ),
        (
            "tests/manifests/wrong.yaml",
            "error: cannot use tests/manifests/wrong.yaml: configuration line",
        ),
        (manifest, "error: cannot use ../../examples/minimal.yaml: configuration line"),
    ] {
        let (code, text) = failure(&["validate", "-f", manifest, "--config", config]);
        assert_eq!(code, 2, "{text}");
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn manifests_that_cannot_be_read_are_a_failure() {
    let empty = fresh_directory("no-manifests");
    fs::create_dir_all(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    for (path, expected) in [
        ("tests/absent.yaml", "error: cannot read tests/absent.yaml: No such file".to_owned()),
        (empty, format!("error: {empty} has no *.yaml, *.yml or *.json files")),
    ] {
        let (code, text) = failure(&["validate", "-f", path]);
        assert_eq!(code, 6, "{text}");
        assert!(text.starts_with(&expected), "{text}");
    }
    let (code, text) = failure(&["validate"]);
    assert_eq!(code, 1);
    assert!(text.contains("--filename <PATH>"), "{text}");
}

#[test]
fn the_operator_refuses_a_configuration_it_cannot_use_and_names_the_line() {
    let directory = fresh_directory("operator-configuration");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.yaml");
    let header = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";
    fs::write(&file, format!("{header}leaderElection:\n  enable: true\n")).unwrap();

    let (code, error) = failure(&["operator", "--config", file.to_str().unwrap()]);

    assert_eq!(code, 2);
    assert!(error.contains("line 4"), "{error}");
    assert!(error.contains("leaderElection.enable"), "{error}");
    let (code, error) = failure(&["operator", "--config", "/does/not/exist.yaml"]);
    assert_eq!(code, 2, "{error}");
    let (code, error) = failure(&["operator"]);
    assert_eq!(code, 1, "{error}");
    assert_eq!(stdout(&["operator", "-v"]), stdout(&["version"]));
}
