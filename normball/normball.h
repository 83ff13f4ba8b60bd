/* normball: optimizers that step on norm balls.
 *
 * In C++ this header is the whole library. In C, and from other languages, it is the interface
 * below: plain functions on pointers, an opaque optimizer, and status codes with a text.
 */
#ifndef NORMBALL_NORMBALL_H_
#define NORMBALL_NORMBALL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum normball_status {
  NORMBALL_OK = 0,
  NORMBALL_INVALID_ARGUMENT = 1, /* no weight was changed */
  NORMBALL_NON_FINITE = 2,       /* NaN or infinity in a gradient; nothing was changed */
  NORMBALL_OUT_OF_MEMORY = 3,
  NORMBALL_ERROR = 4
} normball_status;

/* The text of the calling thread's last error; empty before the first. Valid until the next one. */
const char* normball_last_error(void);

/* "0.1.0" */
const char* normball_version(void);

/* An int, so that a wrong value from another language can be refused. */
typedef int normball_dtype;
enum { NORMBALL_F32 = 0, NORMBALL_F64 = 1 };

/* One parameter tensor, row-major. */
typedef struct normball_layer {
  const char* name;          /* NULL: "layer<i>" */
  const int64_t* dimensions; /* e.g. {out, in} or {out, in, k, k} */
  size_t rank;
  const char* norm; /* e.g. "spectral", "sign", "rms"; NULL: "auto" */
  double radius;    /* positive */
} normball_layer;

/* Fill with normball_default_options() first. Zero means "not given" for the numbers. */
typedef struct normball_options {
  double lr;    /* gamma rho: the largest step in product-norm units */
  double alpha; /* weight of the newest gradient, in (0, 1] */
  double rho;   /* clipping threshold on s */
  double beta;  /* radius, for "s3cg" */
  double l0;    /* for "adaptive_sd", where one of l0 and l1 may be zero */
  double l1;
  const char* short_step;  /* "plain" (default), "norm" or "diameter" */
  int threads;             /* 0: OpenMP's default */
  int overwrite_gradients; /* let gradient buffers hold the directions */
  int light;               /* keep the average in the gradient buffers, and no other state */
  int skip_nonfinite;      /* report and do nothing instead of NORMBALL_NON_FINITE */
} normball_options;

void normball_default_options(normball_options* options);

typedef struct normball_report {
  int64_t step;
  double pairing; /* s */
  double eta;
  double gamma;
  double lr;
  double wolfe_gap;
  int clipped;
  int skipped;
} normball_report;

typedef struct normball_optimizer normball_optimizer;

/* method: "clipped_scion", "unconstrained_clipped_scion", "scion", "ggnc", ... */
normball_status normball_create(const char* method, normball_dtype dtype,
                                const normball_layer* layers, size_t layer_count,
                                const normball_options* options, normball_optimizer** out);
void normball_destroy(normball_optimizer* optimizer);

/* One pointer a layer, to as many elements as the layer has, of the optimizer's type. A null
 * gradient leaves its layer out of the step. report may be null. */
normball_status normball_step(normball_optimizer* optimizer, void* const* weights,
                              void* const* gradients, normball_report* report);
normball_status normball_set_lr(normball_optimizer* optimizer, double lr);

/* The state, buffer by buffer, in place: save by reading, restore by writing, then set the steps.
 */
normball_status normball_state_count(normball_optimizer* optimizer, size_t* count);
normball_status normball_state_buffer(normball_optimizer* optimizer, size_t index,
                                      const char** name, void** data, size_t* elements);
normball_status normball_get_steps(const normball_optimizer* optimizer, int64_t* steps);
normball_status normball_set_steps(normball_optimizer* optimizer, int64_t steps);

/* Single norms, on a dense matrix. value, where not null, gets the dual norm of d. */
normball_status normball_lmo(const char* norm, normball_dtype dtype, const void* d, int64_t rows,
                             int64_t cols, void* out, double* value);
normball_status normball_norm(const char* norm, normball_dtype dtype, const void* x, int64_t rows,
                              int64_t cols, double* value);
normball_status normball_dual_norm(const char* norm, normball_dtype dtype, const void* d,
                                   int64_t rows, int64_t cols, double* value);

#ifdef __cplusplus
} /* extern "C" */

#include "normball/error.h"
#include "normball/iterate_sampler.h"
#include "normball/matrix_view.h"
#include "normball/method.h"
#include "normball/norms.h"
#include "normball/optimizer.h"
#include "normball/polar.h"
#include "normball/product_norm.h"
#include "normball/random.h"
#include "normball/routing.h"
#include "normball/schedule.h"
#include "normball/shape.h"
#include "normball/step_rule.h"
#endif

#endif /* NORMBALL_NORMBALL_H_ */
