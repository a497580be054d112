// Command siding is the stock node. A program of your own that calls runtime.Main with functions has the same commands.
package main

import "github.com/siding-dev/siding/runtime"

func main() { runtime.Main() }
