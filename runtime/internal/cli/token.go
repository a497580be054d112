package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	stdruntime "runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/streams"
)

func (a *app) tokenNoun() *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "Tokens that callers of a node present", Args: cobra.ArbitraryArgs, RunE: a.needsVerb,
		Long: "A node reads the file of --token-file when it starts: a line name:sha256 for each token. The tokens themselves\nare kept nowhere but with those who use them.",
	}
	c.AddCommand(a.tokenNew(), a.tokenHash())
	return c
}

func (a *app) tokenNew() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a token that nobody can guess",
		Long: "Prints a new token, once: it is kept nowhere. With --append its line is added to a token file, which is made if it\n" +
			"is missing; without, the line is shown on standard error. Its name is who decided what is decided with it.",
		Example: "  siding token new ana --append tokens        # once for each person or program\n" +
			"  siding serve --http :4280 --token-file tokens\n" +
			"  SIDING_TOKEN=siding_… siding dlq ls",
		Args: arguments(1, 1, "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			secret, token, err := streams.NewToken(args[0])
			if err != nil {
				return badToken(err)
			}
			if err := a.keepToken(file, token); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.env.Stdout, secret)
			return err
		},
	}
	c.Flags().StringVar(&file, "append", "", "token file that gets the line")
	return c
}

func (a *app) tokenHash() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:     "hash NAME",
		Short:   "Make the line of a token that exists, read from standard input",
		Example: "  siding token hash ana < secret >> tokens",
		Args:    arguments(1, 1, "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			const longest = 4 << 10
			secret, err := io.ReadAll(io.LimitReader(a.env.Stdin, longest))
			if err != nil {
				return err
			}
			token, err := streams.HashToken(args[0], strings.TrimSpace(string(secret)))
			if err != nil {
				return badToken(err)
			}
			if file != "" {
				return a.keepToken(file, token)
			}
			_, err = fmt.Fprintln(a.env.Stdout, token)
			return err
		},
	}
	c.Flags().StringVar(&file, "append", "", "token file that gets the line")
	return c
}

// keepToken adds a token's line to a file, or shows it when there is none. A file that does not parse stays as it is.
func (a *app) keepToken(file string, token streams.Token) error {
	if file == "" {
		a.say("line for the token file: %s", token)
		return nil
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usage("name a token file, or one that does not exist yet", "--append: %v", err)
	}
	tokens, err := streams.ParseTokens(string(before))
	if err != nil && !errors.Is(err, streams.ErrNoTokens) {
		return tokenFile(file, err)
	}
	for _, t := range tokens {
		if t.Name == token.Name {
			return refused("choose another name, or remove its line first", "--append %s: it has a token named %s", file, token.Name)
		}
	}
	lead := ""
	if len(before) > 0 && before[len(before)-1] != '\n' {
		lead = "\n"
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return usage("name a token file, or one that does not exist yet", "--append: %v", err)
	}
	_, err = fmt.Fprintf(out, "%s%s\n", lead, token)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("--append %s: %w", file, err)
	}
	a.say("%s has the token %s now; a node that runs reads it when it starts again", file, token.Name)
	return nil
}

// readTokens reads the file of --token-file.
func (a *app) readTokens(file string) (streams.Tokens, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usage("`siding token new NAME --append FILE` makes one", "--token-file: %v", err)
	}
	// Windows has no such bits.
	if info, err := os.Stat(file); err == nil && stdruntime.GOOS != "windows" && info.Mode().Perm()&0o006 != 0 {
		a.say("warning: --token-file %s: every user of this machine can read or change it; chmod 600 it", file)
	}
	tokens, err := streams.ParseTokens(string(text))
	if err != nil {
		return nil, tokenFile(file, err)
	}
	return tokens, nil
}

func tokenFile(file string, err error) error {
	what, hint, _ := strings.Cut(err.Error(), ": hint: ")
	return usage(hint, "token file %s: %s", file, what)
}

func badToken(err error) error {
	what, hint, _ := strings.Cut(err.Error(), ": hint: ")
	return usage(hint, "%s", what)
}
