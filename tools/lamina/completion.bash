# bash completion of `lamina`: source it, or install it as share/bash-completion/completions/lamina.
# Commands and options are those that `--help` lists.
_lamina() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]} command= i help
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }
  done
  COMPREPLY=()
  if [[ -z $command ]]; then
    help=$("$program" --help 2>/dev/null)
    if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "--help --version" -- "$word"))
    else COMPREPLY=($(compgen -W "$(awk '/ubcommands:/ { listed = 1; next } listed && /^ +[a-z]/ { print $1 }' <<<"$help")" -- "$word"))
    fi
    return
  fi
  help=$("$program" "$command" --help 2>/dev/null)
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(awk '/^ +-/ { gsub(",", " "); for (i = 1; i <= NF && $i ~ /^-/; ++i) print $i }' <<<"$help")" -- "$word"))
  elif [[ $previous == --* && $help =~ $previous[^$'\n']*\{([^}]*)\} ]]; then
    COMPREPLY=($(compgen -W "${BASH_REMATCH[1]//,/ }" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "${word#*=}"))
    [[ $word == *=* ]] && COMPREPLY=("${COMPREPLY[@]/#/${word%%=*}=}")
  fi
}
complete -o filenames -F _lamina lamina
