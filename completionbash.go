package main

import (
	"fmt"
	"strings"
)

// bashFrame is the completion for bash, from version 3.2 on, without the
// package bash-completion. It is given the first words, the second words of
// each, the arguments of each command, and the words of each value. Bash
// splits --flag=value into three words.
const bashFrame = `# Completion of agent-runtime for bash, made by: agent-runtime completion bash

_agent_runtime_offer() {
	COMPREPLY=($(compgen -W "$1" -- "$cur"))
}

_agent_runtime_paths() {
	local path quote=
	compopt -o filenames 2>/dev/null || quote=yes
	while IFS= read -r path; do
		if [[ $quote ]]; then
			printf -v path %%q "$path"
			[[ $cur == '~'* ]] && path=${path#\\}
		fi
		COMPREPLY+=("$path")
	done < <(compgen "$1" -- "$cur")
}

_agent_runtime() {
	local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} name=${COMP_WORDS[1]}
	local at=2 members= flags= operands= value= word i
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_agent_runtime_offer '%s --help'
		return
	fi
	case $name in
%s	esac
	if [[ $members ]]; then
		if ((COMP_CWORD == 2)); then
			_agent_runtime_offer "$members --help"
			return
		fi
		name="$name ${COMP_WORDS[2]}" at=3
	fi
	case $name in
%s	*) return ;;
	esac
	for ((i = at; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word == = ]]; then
			continue
		elif [[ $value ]]; then
			value=
		elif [[ $word == -* ]]; then
			if [[ " $flags " == *" $word="* ]]; then
				value=${flags#*"$word="}
				value=${value%%%% *}
			fi
		else
			operands=${operands#* }
		fi
	done
	[[ $cur == = ]] && cur=
	if [[ -z $value ]]; then
		value=${operands%%%% *}
		if [[ $cur == -* || -z $value ]]; then
			value=
			for word in $flags; do
				value+="${word%%%%=*} "
			done
			_agent_runtime_offer "$value--help"
			return
		fi
	fi
	case $value in
%s	esac
}

complete -F _agent_runtime agent-runtime
`

func bashCompletion(table []command) string {
	var first []string
	var members, arguments, values strings.Builder
	for _, g := range groups(table) {
		first = append(first, g.word)
		if len(g.members) > 0 {
			fmt.Fprintf(&members, "\t%s) members='%s' ;;\n", g.word, strings.Join(g.words(), " "))
		}
	}
	for _, cmd := range table {
		fmt.Fprintf(&arguments, "\t'%s') flags='%s' operands='%s' ;;\n", cmd.name, bashFlags(cmd), bashOperands(cmd))
	}
	fmt.Fprintf(&values, "\t%s) _agent_runtime_paths -d ;;\n", folderValue)
	fmt.Fprintf(&values, "\t%s) _agent_runtime_paths -f ;;\n", strings.Join(fileValues, " | "))
	for _, value := range []string{scopeValue, shellValue} {
		fmt.Fprintf(&values, "\t%s) _agent_runtime_offer '%s' ;;\n", value, strings.Join(valueWords(value), " "))
	}
	return fmt.Sprintf(bashFrame, strings.Join(first, " "), &members, &arguments, &values)
}

// bashFlags are the flags of cmd, those with a value as --flag=VALUE.
func bashFlags(cmd command) string {
	var words []string
	for _, a := range cmd.flags() {
		words = append(words, strings.Replace(a.String(), " ", "=", 1))
	}
	return strings.Join(words, " ")
}

// bashOperands are the operands of cmd with a space after each.
func bashOperands(cmd command) string {
	var text strings.Builder
	for _, a := range cmd.operands() {
		text.WriteString(a.value + " ")
	}
	return text.String()
}
