// The small calls behind plain functions, so that the harness needs no module and lamina's side no standard header.
#pragma once

namespace bench::overheads {

/// r = evaluate(a * b + a), 4x4; each call allocates a new result.
void evaluate_small();
/// f(x, w, out), where `f` is a formula of the same expression.
void formula_small();
/// One run of a bound network of 32 small layers, and its number of steps.
void run_small_steps();
long small_steps();
/// The same kernels with arguments of the same form, called in sequence without the executor.
void call_small_kernels();
/// One run of a program of small operations built at run time, and its number of operations.
void run_small_net();
long small_net_operations();
/// The same as a named net, run in a workspace.
void run_named_net();
/// Builds and plans a net of 1,000 operations in a separate context.
void build_named_net();
/// 1,000 runs of Caffe2's toy regression with batches of 64, already planned.
void run_toy_regression();

}  // namespace bench::overheads
