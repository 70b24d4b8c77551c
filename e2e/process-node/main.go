package main
import _ "github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
func main(){}
