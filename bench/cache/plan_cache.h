// Plan cache hits behind plain functions, so that the harness needs no module and lamina's side no standard header.
#pragma once

namespace bench::plan_cache {

/// The cache has plans of one program for images of 80x80 to 99x99; each call below looks up a plan `count` times.
inline constexpr int shapes = 400;

/// All plans in sequence.  `visit` reads the plan in place, `copy` takes a shared pointer to it.
void visit_all(long count);
void copy_all(long count);
/// Always the same plan.
void visit_one(long count);
void copy_one(long count);

/// `begin`: creates a new reference model of two convolutions, which has seen no shape. `run`: runs it on image i, of
/// the shapes above. `touch`: reads all bytes of that image to bring them into the CPU cache.
void begin();
void run(int i);
void touch(int i);

/// Whether the lookups found the correct plans and no plan was built twice.
bool answers_are_right();

}  // namespace bench::plan_cache
