// Hits of a cache of plans behind plain functions: the harness needs no module, and our side no standard header.
#pragma once

namespace bench::plan_cache {

/// Plans of one program for images of 80x80 to 99x99 are in the cache; each call asks `count` times for one of them.
inline constexpr int shapes = 400;

/// One after the other.  `visit` looks at the plan where it is, `copy` takes a shared pointer to it.
void visit_all(long count);
void copy_all(long count);
/// Always the same one.
void visit_one(long count);
void copy_one(long count);

/// A reference model of two convolutions, made again: it has met no shape. Then a run for image i, of the shapes above, and
/// a look at all bytes of that image, so that its memory is near.
void begin();
void run(int i);
void touch(int i);

/// Whether the right plans were found, and none was built a second time.
bool answers_are_right();

}  // namespace bench::plan_cache
