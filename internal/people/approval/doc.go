// Package approval keeps questions to people about calls, and their answers.
//
// An answer is bound to the arguments of the call, to its caller, and to the policy that
// asked: a call that differs in any of these is another question.
//
// A yes is good for one call. If the person said more and the policy allows it, the yes is
// good for calls that look the same, in a session or for some hours. If nobody answers in
// time, the answer is no.
package approval
