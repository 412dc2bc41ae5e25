// Compiles the steps of a chain to a register chain, for planner and benchmarks.
#pragma once
#include "elementwise.h"

namespace lamina::kernels {
namespace chain_compiling {

class chain_compiler {
 public:
  chain_compiler(const map_functions* const* maps, chain_args& chain) : maps_(maps), chain_(chain) {}

  /// Writes the register chain; leaves it empty if a step is unsupported.
  void run() {
    chain_.register_count = 0;
    if (!fits()) return;
    analyze();
    // The first round finds the values that are read from memory after leaving the registers; the second stores them.
    for (int round = 0; round < 2; ++round) {
      count_ = 0;
      held_ = no_step;
      for (int s = 0; s < chain_.step_count; ++s)
        if (!delayed_[s]) flow(s);
    }
    if (count_ <= register_steps && chain_.register_chain[count_ - 1].form == chain_form::store)
      chain_.register_count = count_;
    for (int i = chain_.register_count; i < register_steps; ++i) chain_.register_chain[i] = {};
  }

 private:
  static constexpr int no_step = -1;

  static bool simple(map_op op) { return op == map_op::add || op == map_op::subtract || op == map_op::multiply; }
  register_function registers(int step) const { return maps_[step]->registers[static_cast<int>(chain_.register_type)]; }
  register_function reversed(int step) const { return maps_[step]->reversed[static_cast<int>(chain_.register_type)]; }
  static int inputs_of(const chain_step& s) {
    int n = 0;
    while (n < 3 && s.in[n] >= 0) ++n;
    return n;
  }

  bool fits() {
    chain_.register_type = chain_.step[0].type;
    if (chain_.register_type != element::f32 && chain_.register_type != element::f64) return false;
    for (int o = 0; o < chain_.operand_count; ++o)
      if (chain_.operand[o].size != (chain_.register_type == element::f32 ? 4 : 8)) return false;
    for (int k = 0; k < chain_.step_count; ++k) {
      const chain_step& s = chain_.step[k];
      if (s.type != chain_.register_type || s.run != maps_[k]->of[static_cast<int>(s.type)]) return false;
      const bool moves = inputs_of(s) == 1 && s.op == map_op::copy;
      if (inputs_of(s) == 3 ? s.op != map_op::clamp : !moves && !registers(k)) return false;
    }
    return true;
  }

  /// Finds the writer of each input, and the steps to delay until their only reader: simple operations on operands,
  /// read once by a simple operation, with no result written in between.
  void analyze() {
    int writer[chain_operands + chain_temporaries];
    for (int& w : writer) w = no_step;
    for (int k = 0; k < chain_.step_count; ++k) {
      const chain_step& s = chain_.step[k];
      readers_[k] = 0;
      kept_[k] = delayed_[k] = false;
      for (int i = 0; i < inputs_of(s); ++i) {
        const int from = from_[k][i] = writer[s.in[i]];
        if (from == no_step) continue;
        ++readers_[from];
        reader_[from] = k;
      }
      writer[s.out] = k;
    }
    for (int k = 0; k < chain_.step_count; ++k) {
      const chain_step& s = chain_.step[k];
      if (readers_[k] != 1 || s.out < chain_operands || !(simple(s.op) || s.op == map_op::square)) continue;
      const int to = reader_[k];
      bool waits = simple(chain_.step[to].op);
      for (int i = 0; i < inputs_of(s); ++i) waits = waits && s.in[i] < chain_operands;
      for (int between = k + 1; between < to; ++between) waits = waits && chain_.step[between].out >= chain_operands;
      delayed_[k] = waits;
    }
  }

  void add(chain_form form, map_op op, int x, int y = chain_operands, map_op inner = map_op::add,
           register_function run = nullptr) {
    if (count_ < register_steps)
      chain_.register_chain[count_] = {run,
                                       form,
                                       static_cast<std::uint8_t>(op),
                                       static_cast<std::uint8_t>(inner),
                                       static_cast<std::int8_t>(x),
                                       static_cast<std::int8_t>(y)};
    ++count_;
  }
  void add_operation(chain_form form, int step, int x) {
    add(form, chain_.step[step].op, x, chain_operands, map_op::add,
        form == chain_form::reversed ? reversed(step) : registers(step));
  }
  bool holds(int step, int input) const { return from_[step][input] != no_step && from_[step][input] == held_; }
  bool waits(int step, int input) const { return from_[step][input] != no_step && delayed_[from_[step][input]]; }
  /// The slot of an input that is read from memory; marks its writer to store it.
  int memory(int step, int input) {
    if (from_[step][input] != no_step) kept_[from_[step][input]] = true;
    return chain_.step[step].in[input];
  }
  /// A delayed step as (x op y).
  struct pair {
    map_op op;
    int x, y;
  };
  pair pair_of(int step) {
    const chain_step& s = chain_.step[step];
    const bool square = s.op == map_op::square;
    return {square ? map_op::multiply : s.op, memory(step, 0), memory(step, square ? 0 : 1)};
  }
  void start(const pair& p) { add(chain_form::both, p.op, p.x, p.y); }
  void bring(int step, int input) {
    if (!holds(step, input)) add(chain_form::load, map_op::copy, memory(step, input));
  }

  /// Emits one step: its value goes to the registers, and to memory if it is a result or read from memory later.
  void flow(int k) {
    const chain_step& s = chain_.step[k];
    const int n = inputs_of(s);
    if (n == 1) {
      bring(k, 0);
      if (s.op != map_op::copy) add_operation(chain_form::unary, k, chain_operands);
    } else if (n == 3) {
      bring(k, 0);
      add(chain_form::raise, s.op, memory(k, 1));
      add(chain_form::lower, s.op, memory(k, 2));
    } else {
      flow_binary(k, s);
    }
    held_ = k;
    if (s.out < chain_operands || kept_[k]) add(chain_form::store, map_op::copy, s.out);
  }
  void flow_binary(int k, const chain_step& s) {
    if (waits(k, 0) && !holds(k, 1)) {  // x is computed here
      start(pair_of(from_[k][0]));
      held_ = from_[k][0];
    } else if (!waits(k, 0) && waits(k, 1) && !holds(k, 0)) {
      start(pair_of(from_[k][1]));
      held_ = from_[k][1];
    } else if (!waits(k, 0) && !holds(k, 0) && !holds(k, 1)) {
      if (simple(s.op)) {
        add(chain_form::both, s.op, memory(k, 0), memory(k, 1));
        return;
      }
      add(chain_form::load, map_op::copy, memory(k, 0));
      held_ = from_[k][0];
      add_operation(chain_form::binary, k, memory(k, 1));
      return;
    }
    if (holds(k, 0)) {
      if (waits(k, 1) && !holds(k, 1)) {
        const pair p = pair_of(from_[k][1]);
        add(chain_form::onto, s.op, p.x, p.y, p.op);
      } else {
        add_operation(chain_form::binary, k, memory(k, 1));
      }
    } else if (waits(k, 0)) {
      const pair p = pair_of(from_[k][0]);
      add(s.op == map_op::subtract ? chain_form::reversed_onto : chain_form::onto, s.op, p.x, p.y, p.op);
    } else {
      const bool commutes = s.op == map_op::add || s.op == map_op::multiply;
      add_operation(commutes ? chain_form::binary : chain_form::reversed, k, memory(k, 0));
    }
  }

  const map_functions* const* maps_;  // one per step
  chain_args& chain_;
  int count_ = 0, held_ = no_step;  // the step whose value the registers hold
  int from_[chain_steps][3] = {}, readers_[chain_steps] = {}, reader_[chain_steps] = {};
  bool delayed_[chain_steps] = {}, kept_[chain_steps] = {};
};

}  // namespace chain_compiling

/// Sets the register chain of a chain if all its steps support it; `maps` has the micro-operation of each step.
inline void compile_chain(const map_functions* const* maps, chain_args& chain) {
  chain_compiling::chain_compiler(maps, chain).run();
}

}  // namespace lamina::kernels
