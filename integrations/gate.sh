#!/usr/bin/env bash
# Holds a model to rules in a CI job. The first job with an empty store makes the baseline; later ones
# are measured in turn with it, on the runner they are on. Told by the environment:
#
#   CANDIDATE        the model, or a .toml file of several models (needed)
#   RULES            e.g. --max-slowdown 5% --metric p99<10ms   (default: --max-slowdown 5%)
#   ARGS             further flags for bench and gate alike, e.g. --batch 8
#   MACHINE          what runners of this kind are called, e.g. ci-t4
#   STORE            folder that is kept from job to job (default: .trtbench)
#   OUTPUT           folder of gate.md, gate.junit.xml, gate.json and the report (default: gate)
#   BASELINE_TAG     tag of the run to be held against (default: baseline)
#   UPDATE_BASELINE  "true": an open gate makes the candidate the new baseline
#
# Leaves with the status of trtbench gate: 0 PASS, 3 FAIL.
set -euo pipefail
: "${CANDIDATE:?CANDIDATE names the model to be held to rules}"
store=${STORE:-.trtbench} output=${OUTPUT:-gate} tag=${BASELINE_TAG:-baseline}
read -r -a rules <<<"${RULES:---max-slowdown 5%}"
read -r -a args <<<"${ARGS:-}"
export TRTBENCH_STORE=$store
if [ -n "${MACHINE:-}" ]; then export TRTBENCH_MACHINE=$MACHINE; fi
mkdir -p "$output"

baseline=(--baseline "tag:$tag")
if [[ $CANDIDATE == *.toml ]]; then
  baseline=() # such a file says itself what each model is held against
elif [ "$(trtbench runs --tag "$tag" --json)" = "[]" ]; then
  trtbench bench "$CANDIDATE" "${args[@]}" --launches 5 --keep-model --tag "$tag"
  echo "There was no baseline yet: this model is it from now on." | tee "$output/gate.md"
  exit 0
fi

status=0
if [[ $CANDIDATE == *.toml ]]; then rules=(); fi
trtbench gate "$CANDIDATE" "${baseline[@]}" "${rules[@]}" "${args[@]}" -o "$output" || status=$?
trtbench report last -o "$output/report" >/dev/null || true # nothing measured, nothing to report
if [ "$status" = 0 ] && [ "${UPDATE_BASELINE:-}" = true ] && [ ${#baseline[@]} -gt 0 ]; then
  # The run that was judged, which need not be the last: the same bytes are not measured again.
  judged=$(grep -o '"candidate": *"[^"]*"' "$output/gate.json" | head -n 1 | cut -d '"' -f 4)
  if [ -n "$judged" ]; then trtbench runs tag "$judged" "$tag"; fi
fi
exit "$status"
