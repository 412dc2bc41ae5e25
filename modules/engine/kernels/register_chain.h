// Register chains: elementwise chains whose values stay in registers.  A block of elements fills eight registers; each
// step processes them and tail-calls the next with the registers as arguments, so that no value goes through memory.
#pragma once
#include "micro.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace register_chains {

inline constexpr int registers = 8;
/// Elements of T in a block.
template <class T> inline constexpr long block = registers * width<T>;
inline constexpr long block_bytes = registers * static_cast<long>(sizeof(vec<float>));

#define LAMINA_HELD(T) many<T> a0, many<T> a1, many<T> a2, many<T> a3, many<T> a4, many<T> a5, many<T> a6, many<T> a7

template <class T> struct code;
/// Code of a step; `at` is the byte offset in the row.
template <class T> using function = void (*)(const code<T>*, long at, LAMINA_HELD(T)) noexcept;
/// A step with its addresses; `moves` is -1 if the address advances along the row, else 0.
template <class T> struct code {
  function<T> run;
  char *x, *y;
  long x_moves, y_moves;
};

/// Register `i` of a block in memory.
template <class T> LAMINA_INLINE many<T> get(const char* block, int i) {
  many<T> v;
  __builtin_memcpy(&v, block + i * static_cast<long>(sizeof v), sizeof v);
  return v;
}
/// Applies an operation of `micro` to a register, as an xsimd batch if the operation requires that.
template <class Op, class T> LAMINA_INLINE many<T> apply(many<T> x) {
  if constexpr (Runs<Op, vec<T>, vec<T>>)
    return __builtin_bit_cast(many<T>, Op::run(vec<T>(__builtin_bit_cast(decltype(vec<T>::data), x))).data);
  else return Op::run(x);
}

// --- operations of steps on the registers ---------------------------------------------------------------------------
#define LAMINA_EACH_HELD LAMINA_UNROLL for (int i = 0; i < registers; ++i)

struct load {
  template <class T> LAMINA_INLINE static void run(many<T> (&a)[registers], const char* x, const char*) {
    LAMINA_EACH_HELD a[i] = get<T>(x, i);
  }
};
template <class Op> struct unary {
  template <class T> LAMINA_INLINE static void run(many<T> (&a)[registers], const char*, const char*) {
    LAMINA_EACH_HELD a[i] = apply<Op, T>(a[i]);
  }
};
template <class Op> struct binary {
  template <class T> LAMINA_INLINE static void run(many<T> (&a)[registers], const char* x, const char*) {
    LAMINA_EACH_HELD a[i] = Op::run(a[i], get<T>(x, i));
  }
};
template <class Op> struct reversed {
  template <class T> LAMINA_INLINE static void run(many<T> (&a)[registers], const char* x, const char*) {
    LAMINA_EACH_HELD a[i] = Op::run(get<T>(x, i), a[i]);
  }
};
template <class Op> struct both {
  template <class T> LAMINA_INLINE static void run(many<T> (&a)[registers], const char* x, const char* y) {
    LAMINA_EACH_HELD a[i] = Op::run(get<T>(x, i), get<T>(y, i));
  }
};
template <class Op, class Inner> struct onto {
  template <class T> LAMINA_INLINE static void run(many<T> (&a)[registers], const char* x, const char* y) {
    LAMINA_EACH_HELD a[i] = Op::run(a[i], Inner::run(get<T>(x, i), get<T>(y, i)));
  }
};
struct subtract_from {
  template <class T> LAMINA_INLINE static T run(T x, T y) { return y - x; }
};

// --- steps ----------------------------------------------------------------------------------------------------------
template <class Body, class T> void step(const code<T>* pc, long at, LAMINA_HELD(T)) noexcept {
  many<T> a[registers] = {a0, a1, a2, a3, a4, a5, a6, a7};
  Body::template run<T>(a, pc->x + (at & pc->x_moves), pc->y + (at & pc->y_moves));
  ++pc;
  [[clang::musttail]] return pc->run(pc, at, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}
/// Stores a block, past the caches if streamed. The last step of a register chain continues with the first step at the
/// next block until the end of the row: `y` is the first step, `y_moves` the size of the row in bytes.
template <bool Streamed, bool Last, class T> void store(const code<T>* pc, long at, LAMINA_HELD(T)) noexcept {
  const many<T> a[registers] = {a0, a1, a2, a3, a4, a5, a6, a7};
  char* const x = pc->x + (at & pc->x_moves);
  LAMINA_EACH_HELD {
    if constexpr (Streamed) __builtin_nontemporal_store(a[i], reinterpret_cast<many<T>*>(x) + i);
    else __builtin_memcpy(x + i * static_cast<long>(sizeof(a[0])), &a[i], sizeof(a[0]));
  }
  if constexpr (Last) {
    at += block_bytes;
    if (at >= pc->y_moves) return;
    pc = reinterpret_cast<const code<T>*>(pc->y);
  } else {
    ++pc;
  }
  [[clang::musttail]] return pc->run(pc, at, a0, a1, a2, a3, a4, a5, a6, a7);
}
#undef LAMINA_EACH_HELD

/// The type-erased code of a step, as stored in chains.
template <class T, class Body> constexpr register_function erased() {
  return reinterpret_cast<register_function>(&step<Body, T>);  // folded, although not a constant expression
}

// --- tables ---------------------------------------------------------------------------------------------------------
/// add, subtract, multiply
inline constexpr int simple_ops = 3;
constexpr int simple(int op) { return op - static_cast<int>(map_op::add); }

/// The code of steps that their form alone determines.
template <class T> struct table {
  function<T> load, raise, lower, both[simple_ops], onto[simple_ops][simple_ops], reversed_onto[simple_ops],
      store[2][2];  // [streamed][last]
};

template <class Op, class T> constexpr void add_onto(function<T> (&row)[simple_ops]) {
  row[0] = step<onto<Op, micro::add>, T>;
  row[1] = step<onto<Op, micro::subtract>, T>;
  row[2] = step<onto<Op, micro::multiply>, T>;
}
template <class T> constexpr table<T> make_table() {
  table<T> t{};
  t.load = step<load, T>;
  t.raise = step<binary<micro::raise>, T>, t.lower = step<binary<micro::lower>, T>;
  t.both[0] = step<both<micro::add>, T>, t.both[1] = step<both<micro::subtract>, T>;
  t.both[2] = step<both<micro::multiply>, T>;
  add_onto<micro::add, T>(t.onto[0]), add_onto<micro::subtract, T>(t.onto[1]), add_onto<micro::multiply, T>(t.onto[2]);
  add_onto<subtract_from, T>(t.reversed_onto);
  t.store[0][0] = store<false, false, T>, t.store[0][1] = store<false, true, T>;
  t.store[1][0] = store<true, false, T>, t.store[1][1] = store<true, true, T>;
  return t;
}
template <class T> inline constexpr table<T> steps_of = make_table<T>();

// --- running one row ------------------------------------------------------------------------------------------------
template <class T> LAMINA_INLINE function<T> function_of(const register_step& s) {
  const table<T>& t = steps_of<T>;
  switch (s.form) {
    case chain_form::load: return t.load;
    case chain_form::unary:
    case chain_form::binary:
    case chain_form::reversed: return reinterpret_cast<function<T>>(s.run);
    case chain_form::raise: return t.raise;
    case chain_form::lower: return t.lower;
    case chain_form::both: return t.both[simple(s.op)];
    case chain_form::onto: return t.onto[simple(s.op)][simple(s.inner)];
    case chain_form::reversed_onto: return t.reversed_onto[simple(s.inner)];
    default: return t.store[0][0];
  }
}

/// Runs a register chain over the whole blocks of `n` elements.  `address`: addresses of operands and temporaries.
/// `advancing`: a bit for each operand that advances. An operand that repeats one element is expanded in its part of
/// `blocks`; one that repeats several elements is already there.  Returns the number of elements processed.
template <class T> long run(const chain_args& args, char* const* address, unsigned advancing, char* blocks, long n) {
  const long done = n / block<T> * block<T>;
  if (done == 0) return 0;
  char* at[chain_operands];
  unsigned spread = ~advancing & ((1u << args.operand_count) - 1);
  for (int o = 0; spread != 0; ++o, spread >>= 1) {
    if ((spread & 1u) == 0) continue;
    at[o] = address[o];
    if (args.operand[o].inner < 0) continue;  // repeats along a tile
    T* const tile = reinterpret_cast<T*>(blocks + o * (chain_tile * 8));
    const vec<T> value = broadcast(reinterpret_cast<const T*>(address[o]));
    LAMINA_NO_UNROLL for (int i = 0; i < registers; ++i) kernels::store(tile + i * width<T>, value);
    at[o] = reinterpret_cast<char*>(tile);
  }
  code<T> codes[register_steps];
  const int count = args.register_count;
  LAMINA_NO_UNROLL for (int s = 0; s < count; ++s) {
    const register_step& from = args.register_chain[s];
    code<T>& to = codes[s];
    const auto place = [&](int slot, char*& x, long& moves) {
      const bool operand = slot < chain_operands;
      moves = operand ? -static_cast<long>(advancing >> slot & 1u) : 0;
      x = operand && moves == 0 ? at[slot] : address[slot];
    };
    to.run = function_of<T>(from);
    place(from.x, to.x, to.x_moves), place(from.y, to.y, to.y_moves);
    if (from.form == chain_form::store) {
      const bool streamed = from.x < chain_operands && (args.streamed >> from.x & 1u) != 0 &&
                            reinterpret_cast<std::uintptr_t>(to.x) % sizeof(vec<T>) == 0;
      to.run = steps_of<T>.store[streamed][s + 1 == count];
    }
  }
  code<T>& last = codes[count - 1];
  last.y = reinterpret_cast<char*>(codes);
  last.y_moves = done * static_cast<long>(sizeof(T));
  const many<T> none = 0;
  codes[0].run(codes, 0, none, none, none, none, none, none, none, none);
  return done;
}
#undef LAMINA_HELD

}  // namespace register_chains
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
