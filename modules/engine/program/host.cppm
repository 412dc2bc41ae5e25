// Host operations, which run between plans: their interface.
export module lamina:host;
import :any_value;
import :core;
import :dtype;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Runs subprograms of a node; provided by a session.
class subprogram_runner {
 public:
  virtual void run(std::size_t which, view<const any_value> operands, std::vector<any_value>& results) = 0;

 protected:
  ~subprogram_runner() = default;
};

/// One call of an operation that runs on the host. Its definition has `static void run(host_call&)` instead of `emit`:
///
///     static void run(host_call& c) { c.result(0, any_tensor(sorted(c.tensor(0)))); }
///
/// Results are checked against the types from `infer`: kind, element type, rank, known extents. Memory of operands is
/// shared and must not be written; a result may be or contain an operand.
export class host_call {
 public:
  host_call(const node& of, view<const any_value> operands, std::vector<any_value>& results, subprogram_runner& runner)
      : of_(of), operands_(operands), results_(results), runner_(runner) {}

  template <class A> const A& attributes() const { return *static_cast<const A*>(of_.attributes.get()); }
  /// The node, with the types of its results.
  const node& of() const { return of_; }
  view<const any_value> operands() const { return operands_; }
  /// Operand i. Errors of this and the following: value_error for a nonexistent operand.
  const any_value& operator()(std::size_t i) const;
  /// Operand i, a tensor. Errors: type_error.
  const any_tensor& tensor(std::size_t i) const { return (*this)(i).as_tensor(); }
  /// The one element of operand i, a tensor of integers or bool. Errors: value_error, type_error.
  std::int64_t number(std::size_t i) const;
  /// Sets a result. Every result must be set.
  void result(std::size_t i, any_value v);
  /// The results, to be filled directly by a subprogram.
  std::vector<any_value>& results() { return results_; }
  /// Runs a subprogram of the node. Results of matching type with unshared memory are reused, so that a loop that
  /// alternates between two lists allocates nothing. Plans are cached by extents, as in any session.
  void run(std::size_t subprogram, view<const any_value> operands, std::vector<any_value>& results) {
    runner_.run(subprogram, operands, results);
  }
  /// Raises an error that names the operation and its place.
  [[noreturn]] void fail(error_kind kind, const text& why) const;

 private:
  const node& of_;
  view<const any_value> operands_;
  std::vector<any_value>& results_;
  subprogram_runner& runner_;
};

}  // namespace lamina
