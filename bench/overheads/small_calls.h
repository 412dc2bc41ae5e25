// The small calls of overheads behind plain functions: the harness needs no module, and our side no standard header.
#pragma once

namespace bench::overheads {

/// r = evaluate(a * b + a), 4x4; the result is new each time.
void evaluate_small();
/// f(x, w, out) of a formula of the same expression.
void formula_small();
/// One run of a bound network of 32 small layers; its steps.
void run_small_steps();
long small_steps();
/// The same kernels with arguments of the same form, called one after the other without the executor.
void call_small_kernels();
/// One run of a program of small operations made at run time, and how many they are.
void run_small_net();
long small_net_operations();
/// The same as a net by name, run in a workspace.
void run_named_net();
/// Builds and plans a net of 1,000 operations, in a context of its own.
void build_named_net();
/// 1,000 runs of Caffe2's toy regression with batches of 64, planned before.
void run_toy_regression();

}  // namespace bench::overheads
