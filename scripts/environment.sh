# Sourced by the other scripts: `use_environment KIND` makes (once) and activates a virtual environment with this
# checkout installed in it. It lies outside the checkout, named by the hash of all that decides its content.
# KIND: "product" (what a user needs) or "dev" (what the checks and tests need as well).

use_environment() {
  local kind=$1 extra="" python key
  [ "$kind" = dev ] && extra="[dev]"
  python=${PYTHON:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || { echo "Python 3.11 or newer is needed; name one with PYTHON=..." >&2; return 1; }
  key=$(cat scripts/constraints.txt pyproject.toml <("$python" -VV) <(pwd -P) | sha256sum | cut -c1-16)
  environment=${XDG_CACHE_HOME:-$HOME/.cache}/loopai-trainer/$kind-$key
  if [ ! -e "$environment/.complete" ]; then
    echo "installing the $kind environment in $environment" >&2
    rm -rf "$environment"
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
      --constraint scripts/constraints.txt --editable ".$extra" >&2
    touch "$environment/.complete"
  fi
  PATH=$environment/bin:$PATH
}
