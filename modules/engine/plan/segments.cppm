// Programs whose shapes become known only while they run, cut into programs that are planned one after the other.
export module lamina:segments;
import :core;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// What a segment reads: an input of the whole program, or a slot, a value that an earlier segment left.
struct segment_source {
  bool is_input = false;
  std::size_t at = 0;
};
/// A value that outlives its segment: one that later segments read, or an output of the whole program.
struct segment_slot {
  tensor_type type;                  // as far as it is known before a run
  std::vector<std::size_t> outputs;  // of the whole program, which it is
};
/// The rows of a value whose number is read once its segment has run.
struct counted_rows {
  segment_source rows, count;
  std::size_t slot = 0;  // what they are from then on
  std::string what;      // the operation, for messages
};
struct program_segment {
  std::shared_ptr<const program> body;  // null: nothing is computed
  std::vector<segment_source> inputs;   // of the body
  std::vector<std::size_t> known;       // those of them whose elements decide shapes: they are known when it is planned
  std::vector<std::size_t> outputs;     // the slots that its outputs fill
  std::vector<counted_rows> ends;       // what is read after it has run
};
/// A program as a row of others. Each is planned for the extents that those before it have found. What is needed of states
/// alone stands in every segment that reads it; states are assigned in the last.
struct segmented_program {
  std::vector<program_segment> segments;
  std::vector<segment_slot> slots;
};
/// Cuts a program behind every `truncate`, and before operations whose operands decide shapes and are computed in a run. Errors: unsupported_error where one stands in the program of a `cond`, `loop` or `scan`.
segmented_program segmented(const program& p);

}  // namespace lamina
