// A module of the lowest layer that imports one of the next layer; a test checks that this is refused.
export module lamina:core;
import :plan;
