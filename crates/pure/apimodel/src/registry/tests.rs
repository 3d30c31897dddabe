//! Versions and look-ups.

use super::*;

#[test]
fn versions_are_ordered_as_kube_orders_them() {
    let mut versions = [
        "v1",
        "foo10",
        "v10",
        "v1alpha1",
        "v2",
        "v11beta2",
        "v1beta1",
        "foo1",
        "v3beta1",
        "v12alpha1",
        "v10beta3",
        "v11alpha2",
    ];
    versions.sort_by(|a, b| compare_versions(a, b));
    assert_eq!(
        versions,
        [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v1beta1",
            "v12alpha1",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10"
        ]
    );
}

#[test]
fn built_in_kinds_resolve_by_url_and_by_kind() {
    let registry = Registry::builtin();
    for (group, version, plural, kind, api_version) in [
        ("", "v1", "configmaps", "ConfigMap", "v1"),
        ("apps", "v1", "deployments", "Deployment", "apps/v1"),
        ("batch", "v1", "jobs", "Job", "batch/v1"),
        ("coordination.k8s.io", "v1", "leases", "Lease", "coordination.k8s.io/v1"),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
        ),
    ] {
        let (definition, _) = registry.resolve(group, version, plural).unwrap();
        assert_eq!(definition.kind, kind);
        assert_eq!(registry.by_kind(api_version, kind).unwrap().name, definition.name);
    }
    for (group, version, plural) in [
        ("", "v2", "configmaps"),
        ("apps", "v1", "configmaps"),
        ("", "v1", "deployments.apps"),
        ("", "v1", ""),
    ] {
        assert_eq!(
            registry.resolve(group, version, plural).unwrap_err().code,
            404,
            "{group} {version} {plural}"
        );
    }
}
