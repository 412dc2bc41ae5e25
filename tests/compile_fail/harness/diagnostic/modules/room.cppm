// What every_diagnostic.py must find here: the messages in `expected.cpp`, and four messages that it lacks.
export module room;

constexpr void infer(int axis, bool heads, inference& out) {
  if (axis < 0) out.why << "axis " << axis << " is outside the room";  // expected
  if (axis > 8) out.why << "the room has no more than " << 8 << " axes";
  if (axis == 3) out.why << (heads ? "the heads of the room differ" : "the tails of the room differ");
  if (axis == 4) out.refuse(axis, "a room with a \"view\"", "room");
  static_assert(sizeof(int) == 4, "a room of four walls");
  if (axis > 9) raise("this one is said when the program runs");
}
