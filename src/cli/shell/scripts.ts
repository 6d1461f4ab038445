/**
 * What a shell needs to ask `holdfast __complete`. Candidates come a line each; what stands behind
 * a tab says what it is.
 */

const bash = `# holdfast: completion for bash
_holdfast() {
  local cur words cword line word quoted
  # Not split at colons, equal signs and at signs, which stand in addresses and ids.
  if declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref -n =:@ cur words cword
  else
    cur="\${COMP_WORDS[COMP_CWORD]}"; words=("\${COMP_WORDS[@]}"); cword=$COMP_CWORD
  fi
  local open=""
  case "$cur" in \\"*|\\'*) open=1; words[cword]="\${cur:1}" ;; esac
  COMPREPLY=()
  while IFS= read -r line; do
    word="\${line%%$'\\t'*}"
    [ -n "$word" ] || continue
    # What is stored becomes part of a command line: it is quoted. Inside of quotes only what needs none is offered.
    printf -v quoted %q "$word"
    if [ -z "$open" ] || [ "$quoted" = "$word" ]; then COMPREPLY+=("$quoted"); fi
  done < <("\${words[0]}" __complete -- "\${words[@]:1:cword}" 2>/dev/null)
  if [ "\${COMPREPLY[0]:-}" = "__files__" ]; then
    COMPREPLY=()
    compopt -o default 2>/dev/null
  elif declare -F __ltrim_colon_completions >/dev/null; then
    __ltrim_colon_completions "$cur"
  fi
}
complete -F _holdfast holdfast
`;

const zsh = `#compdef holdfast
# holdfast: completion for zsh
_holdfast() {
  local -a lines candidates
  local line
  lines=("\${(@f)$("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ "\${lines[1]}" == "__files__" ]]; then
    _files
    return
  fi
  for line in $lines; do
    [[ -n "$line" ]] || continue
    local word="\${line%%$'\\t'*}" says=""
    [[ "$line" == *$'\\t'* ]] && says="\${line#*$'\\t'}"
    candidates+=("\${word//:/\\\\:}:\${says}")
  done
  _describe 'holdfast' candidates
}
compdef _holdfast holdfast
`;

const fish = `# holdfast: completion for fish
function __holdfast_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command $words[1] __complete -- $words[2..-1] 2>/dev/null)
    if test "$found[1]" = __files__
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $found
    end
end
complete -c holdfast -f -a '(__holdfast_complete)'
`;

export const SCRIPTS: Readonly<Record<string, string>> = { bash, zsh, fish };
