// Programs whose shapes become known only while they run, cut into programs that are planned one after the other.
export module lamina:segments;
import :core;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// What a segment reads: an input of the whole program, a slot, which is a value that an earlier segment left, or of an
/// operation on the host the node of a state or constant, whose elements it reads where they are.
struct segment_source {
  enum class kind : std::uint8_t { slot, input, state, constant };
  kind is = kind::slot;
  std::size_t at = 0;
};
/// A value that outlives its segment: one that later segments read, or an output of the whole program.
struct segment_slot {
  tensor_type type;                  // as far as it is known before a run
  std::vector<std::size_t> outputs;  // of the whole program, which it is
  bool kept = false;                 // an operation on the host reads it, and may keep its memory
};
/// The rows of a value whose number is read once its segment has run.
struct counted_rows {
  segment_source rows, count;
  std::size_t slot = 0;  // what they are from then on
  std::string what;      // the operation, for messages
};
/// An operation that runs on the host.
struct host_step {
  std::int32_t node = -1;  // of the program that was cut
  std::size_t number = 0;  // among these steps
  std::vector<segment_source> operands;
  std::vector<std::size_t> results;  // slots
};
using segment_end = std::variant<counted_rows, host_step>;
struct program_segment {
  std::shared_ptr<const program> body;  // null: nothing is computed
  std::vector<segment_source> inputs;   // of the body
  std::vector<std::size_t> known;       // those of them whose elements decide shapes: they are known when it is planned
  std::vector<std::size_t> outputs;     // the slots that its outputs fill
  std::vector<segment_end> ends;        // what is read, or runs on the host, after it has run
};
/// A program as a row of others. Each is planned for the extents that those before it have found. What is needed of states
/// alone stands in every segment that reads it; states are assigned in the last.
struct segmented_program {
  std::shared_ptr<const program> whole;  // with calls in their place
  std::vector<program_segment> segments;
  std::vector<segment_slot> slots;
  std::size_t host_steps = 0;
  std::vector<std::pair<std::size_t, std::size_t>> passed;  // inputs that are no tensors, and outputs that they are
};
/// Cuts a program behind every `truncate`, around operations that run on the host, and before operations whose operands decide
/// shapes and are computed in a run.
/// Errors: unsupported_error where one stands in the program of a `cond`, `loop` or `scan`.
segmented_program segmented(const program& p);

}  // namespace lamina
