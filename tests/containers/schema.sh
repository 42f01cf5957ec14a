#!/usr/bin/env bash
# What `quota-daemon cdi generate` writes, by the schema that the Container Device Interface's own library comes with. The schema is taken out of
# Debian's package of that library, and goes with the run.
#
#   tests/containers/schema.sh        DIST names the folder of the built artefacts (default: target/dist)
#
# Strict, as that library reads files: no key that the schema does not name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
dist=${DIST:-target/dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=golang-github-container-orchestrated-devices-container-device-interface-dev
(cd "$work" && apt-get -qq download "$package" && dpkg-deb -x "$package"_*.deb .)

cat >"$work/config.toml" <<TOML
[[container]]
name = "team-a"
memory = "4GiB"
[[container]]
name = "7b.x_1"
memory = "none"
TOML
for preload in replace env none; do
    for names in "" team-a; do
        # shellcheck disable=SC2086 # no name, or one
        "$dist/bin/quota-daemon" cdi generate $names --config "$work/config.toml" --preload $preload >"$work/$preload$names.json"
    done
done
/usr/bin/python3 - "$work" <<'PYTHON'
import glob, json, sys, jsonschema

work = sys.argv[1]
(schema,) = glob.glob(f"{work}/usr/share/gocode/src/**/container-device-interface/schema/schema.json", recursive=True)
folder = schema.rsplit("/", 1)[0]
documents = {name: json.load(open(f"{folder}/{name}")) for name in ("schema.json", "defs.json")}


def closed(node):
    """The same schema, where a key that it does not name is wrong."""
    if isinstance(node, dict):
        node = {key: closed(value) for key, value in node.items()}
        if node.get("type") == "object" and "properties" in node:
            node["additionalProperties"] = False
        return node
    return [closed(one) for one in node] if isinstance(node, list) else node


documents = {name: closed(document) for name, document in documents.items()}
resolver = jsonschema.RefResolver("", documents["schema.json"], store=documents)
validator = jsonschema.Draft7Validator(documents["schema.json"], resolver=resolver)
files = sorted(glob.glob(f"{work}/*.json"))
for file in files:
    spec = json.load(open(file))
    validator.validate(spec)
    assert spec["cdiVersion"] in ("0.3.0", "0.5.0"), spec["cdiVersion"]
    for broken in ({**spec, "kinds": 1}, {"kind": spec["kind"], "devices": spec["devices"]}):
        assert not validator.is_valid(broken), "the schema refuses nothing"
print(f"{len(files)} files are as the schema says")
PYTHON
