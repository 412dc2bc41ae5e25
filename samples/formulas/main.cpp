// Formulas: tensors, lazy expressions, gradients, and several results from one evaluation.
#include <iostream>
#include <span>
#include <vector>
import lamina;

using namespace lamina;

void tensors() {
  std::cout << "-- tensors\n";
  matrix<float> a(4, 5);                       // both extents known at run time; zeros
  tensor<float, extents<dyn, 784>> x(32);      // one extent known at compile time
  tensor<float, extents<"N", 784>> named = x;  // same memory; the other extent has a name
  matrix<float> m{{1, 2}, {3, 4}};             // from nested lists
  std::cout << a.shape().string() << " " << x.shape().string() << " " << named.shape().string() << "\n" << m << "\n";

  auto copy = m;  // shares memory, so neither can be written
  try {
    copy.writable(0, 0) = 9;
  } catch (const state_error& e) { std::cout << e.what() << "\n"; }
  copy.detach().writable(0, 0) = 9;
  std::cout << copy << " " << m[1] << "\n";

  std::vector<float> mine{1, 2, 3, 4, 5, 6};  // borrowed: a view of the caller's memory
  std::cout << borrow(std::span(mine), {2, 3}) << "\n";
}

void expressions() {
  std::cout << "-- expressions\n";
  matrix<float> a{{1, 2}, {3, 4}}, b{{0, 0.5f}, {-0.25f, 0}};
  auto y = tanh(a * b) + 2.f * a;  // nothing is computed: y is an expression
  auto r = evaluate(y);            // matrix<float>
  std::cout << r << "\n";

  auto z = zeros<float>(2, 2);  // lazy: no storage until needed
  auto c = filled(3.f, 2, 2);
  std::cout << evaluate(a + z * c) << " " << evaluate(one_hot(5, 3, 0.5f)) << "\n";

  tensor<float, extents<dyn, 784>> x(32);
  auto w = matmul(x, zeros<float, extents<784, 10>>());
  static_assert(decltype(w)::pattern == shape{dyn, 10});  // static shape [?x10]
  std::cout << w.shape().string() << "\n";

  std::cout << evaluate(reduce_sum(a)) << " " << evaluate(reduce_mean<axes(0)>(a)) << " " << evaluate(argmax(a)) << " "
            << evaluate(where(a > 2, a, -a)) << "\n";
  std::cout << evaluate(concat(a, b)) << "\n" << evaluate(transpose(slice(a, {1, 2}))) << "\n";

  try {  // extents known at run time are checked at run time
    auto mismatch = matmul(x, matrix<float>(100, 10));
  } catch (const shape_error& e) { std::cout << e.what() << "\n"; }
}

void functions() {
  std::cout << "-- functions\n";
  auto f = formula([](auto x, auto w) { return relu(matmul(x, w)); });  // traced once per set of operand types
  matrix<float> x{{1, -2}, {3, 4}}, w{{1, 0}, {2, 1}}, out(2, 2);
  std::cout << f(x, w) << "\n";
  f(x, w, out);  // writes into an existing tensor
  std::cout << out << "\n";
}

void gradients_of_a_loss() {
  std::cout << "-- gradients\n";
  matrix<float> x{{1, 2, 3}, {4, 5, 6}}, w{{1, 0}, {0, 1}, {1, 1}}, t{{1, 1}, {2, 2}};
  auto loss = reduce_sum(square(matmul(x, var<"w">(w)) - t));
  auto [value, gradient_of_w] = evaluate(loss, gradient<"w">(loss));  // one program, one plan
  std::cout << value << "\n" << gradient_of_w << "\n";
}

void many_results() {
  std::cout << "-- many results\n";
  matrix<float> a{{1, 2}, {3, 4}}, b{{5, 6}, {7, 8}};
  eval_plan plan;
  auto sum = plan.add(a + b), scaled = plan.add((a + b) * 0.5f);  // a + b is computed once
  try {
    sum.value();
  } catch (const state_error& e) { std::cout << e.what() << "\n"; }
  plan.run();
  std::cout << sum.value() << "\n" << scaled.value() << "\n";
}

void any_operand() {
  std::cout << "-- any operand\n";
  matrix<float> a{{1, 2}, {3, 4}};
  std::vector<dynamic<float, 2>> operands{a, a * 2.f, zeros<float>(2, 2), transpose(a)};  // one type for all of them
  dynamic<float, 2> sum = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) sum = sum + operands[i];
  std::cout << evaluate(sum) << "\n";
}

int main() {
  tensors();
  expressions();
  functions();
  gradients_of_a_loss();
  many_results();
  any_operand();
}
