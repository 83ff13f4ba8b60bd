// Sources that are compiled once for each instruction set (cmake/Variants.cmake), and the choice
// among them at run time. Such a source may not include or instantiate anything shared with code
// for other instruction sets: the linker keeps one copy of an inline function, and it could be the
// one this processor cannot run.
#pragma once

namespace normball {

enum class Variant { Generic, Avx2, Avx512 };

// The fastest that this processor can run, or the one that the environment variable
// NORMBALL_KERNELS names.
Variant chosen_variant();

// "generic", "avx2" or "avx512".
const char* kernel_variant();

}  // namespace normball

// In such a source: kernels_generic_float, where NORMBALL_VARIANT is generic.
#define NORMBALL_JOIN_(a, b, c) a##_##b##_##c
#define NORMBALL_JOIN(a, b, c) NORMBALL_JOIN_(a, b, c)
#define NORMBALL_VARIANT_NAME(name, type) NORMBALL_JOIN(name, NORMBALL_VARIANT, type)

// Where it is used: the result of kernels_<chosen variant>_float().
#ifdef NORMBALL_X86_VARIANTS
#define NORMBALL_CHOOSE(name, type)                                                     \
  (::normball::chosen_variant() == ::normball::Variant::Avx512 ? name##_avx512_##type() \
   : ::normball::chosen_variant() == ::normball::Variant::Avx2 ? name##_avx2_##type()   \
                                                               : name##_generic_##type())
#else
#define NORMBALL_CHOOSE(name, type) name##_generic_##type()
#endif
