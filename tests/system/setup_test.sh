#!/usr/bin/env bash
# scripts/setup on systems that are not this one: dpkg-query, apt-get, apt-cache, id and sudo are stand-ins, and the
# PATH holds nothing else but what the script needs.
#   setup_test.sh SOURCE WORK_DIRECTORY
set -euo pipefail
source=$1
work=$2
rm -rf "$work"
mkdir -p "$work"
failures=0

cat >"$work/packages.txt" <<'END'
# group package what
run      data-set           a data set
build    compiler           a compiler
build    new-name|old-name  a library
test     browser            a browser
END

# A system: the tools that every one has, and those named.
new_system() {
  rm -rf "$work/bin" "$work/calls" "$work/installed" "$work/known"
  mkdir "$work/bin"
  touch "$work/calls" "$work/installed"
  printf '%s\n' data-set compiler new-name old-name browser >"$work/known"
  local tool
  for tool in bash dirname awk sed tr readlink uname grep; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
  done
  for tool in "$@"; do
    case "$tool" in
      dpkg-query) stand_in dpkg-query 'grep -qx -- "${@: -1}" installed && printf installed' ;;
      apt-cache) stand_in apt-cache 'grep -x -- "${@: -1}" known' ;;
      apt-get)
        stand_in apt-get 'echo "apt-get $*" >>calls
          [ "$1" = install ] || exit 0
          shift
          for word in "$@"; do
            case "$word" in -*) ;; *) grep -qx "$word" known || exit 100; echo "$word" >>installed ;; esac
          done' ;;
      root) stand_in id 'echo 0' ;;
      user) stand_in id 'echo 1000' ;;
      sudo) stand_in sudo 'echo sudo >>calls; "$@"' ;;
      *) stand_in "$tool" ':' ;;
    esac
  done
}
stand_in() {
  printf '#!%s\ncd %q\n%s\n' "$work/bin/bash" "$work" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
run_setup() {
  code=0
  PATH="$work/bin" NORMBALL_PACKAGES="$work/packages.txt" "$work/bin/bash" "$source/scripts/setup" "$@" \
    >"$work/out" 2>"$work/err" || code=$?
}
check() {  # what must hold, and in which case
  local case=$1
  shift
  if ! "$@"; then
    echo "$case: not so: $*"
    echo "  exit code $code, apt calls: $(tr '\n' ';' <"$work/calls")"
    sed 's/^/  out: /' "$work/out"
    sed 's/^/  err: /' "$work/err"
    failures=$((failures + 1))
  fi
}
calls() { [ "$(cat "$work/calls")" = "$1" ]; }

new_system dpkg-query apt-get apt-cache root
printf '%s\n' data-set compiler old-name >"$work/installed"
run_setup run build
check "all there, one by its other name" [ "$code" = 0 ]
check "all there: apt is not called" calls ""

run_setup run build test
check "one missing" [ "$code" = 0 ]
check "only what is missing is installed" calls "apt-get update -qq
apt-get install -y -qq --no-install-recommends browser"

new_system dpkg-query apt-get apt-cache root
run_setup run build
check "a group that was not asked for stays away" [ "$code" = 0 ]
check "the first name" calls "apt-get update -qq
apt-get install -y -qq --no-install-recommends data-set compiler new-name"

new_system dpkg-query apt-get apt-cache root
printf '%s\n' data-set compiler old-name browser >"$work/known"
run_setup
check "no group means all" [ "$code" = 0 ]
check "the name that this suite has" calls "apt-get update -qq
apt-get install -y -qq --no-install-recommends data-set compiler old-name browser"

new_system dpkg-query apt-get apt-cache user sudo
run_setup run
check "a user with sudo" [ "$code" = 0 ]
check "through sudo" calls "sudo
apt-get update -qq
sudo
apt-get install -y -qq --no-install-recommends data-set"

new_system dpkg-query apt-get apt-cache user
run_setup run build
check "a user without sudo" [ "$code" = 1 ]
check "no call of apt" calls ""
check "one line to copy" [ "$(grep -c '^apt-get' "$work/err")" = 1 ]
line=$(grep '^apt-get' "$work/err")
new_system dpkg-query apt-get apt-cache root
PATH="$work/bin" bash -euc "$line"
run_setup run build
check "the line, copied, installs all" [ "$code" = 0 ]
check "nothing is left to install" [ "$(grep -c install "$work/calls")" = 1 ]

new_system dpkg-query apt-get apt-cache root
: >"$work/known"  # offline, and without package lists
run_setup run
check "what cannot be installed" [ "$code" = 1 ]
check "is named in a line to copy" grep -q '^apt-get .* data-set' "$work/err"

new_system cmake ninja c++
run_setup run build
check "another distribution with the tools goes on" [ "$code" = 0 ]
for what in "a data set" "a compiler" "a library"; do
  check "another distribution: $what is named" grep -q "^ *$what\$" "$work/err"
done
check "another distribution: no browser to run" [ "$(grep -c browser "$work/err")" = 0 ]

new_system cmake c++
run_setup build
check "another distribution without a tool" [ "$code" = 1 ]
check "names the tool" grep -q "'ninja'" "$work/err"

run_setup tset
check "an unknown group" [ "$code" = 1 ]
check "the groups are named" grep -q "'tset'.* run build test" "$work/err"

# The list itself: a group that is known, a package and words on each line, and no package twice.
while read -r group package what; do
  code=0
  case "$group" in run | build | test | develop) ;; *) check "packages.txt: group '$group'" false ;; esac
  [ -n "$package" ] && [ -n "$what" ] || check "packages.txt: '$group $package $what'" false
done < <(grep -vE '^ *(#|$)' "$source/scripts/packages.txt")
check "no package twice" [ -z "$(awk '!/^ *(#|$)/ { print $2 }' "$source/scripts/packages.txt" | sort | uniq -d)" ]
for name in chromium clang-format clang-tidy libgtest-dev python3-pytest libbenchmark-dev; do
  check "./run.sh does without $name" [ -z "$(awk -v name="$name" '$2 == name && /^(run|build) /' "$source/scripts/packages.txt")" ]
done
exit "$((failures > 0))"
