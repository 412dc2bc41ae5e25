// A room of the ground floor that imports one of the next floor; a test shows that this is refused.
export module lamina:core;
import :plan;
