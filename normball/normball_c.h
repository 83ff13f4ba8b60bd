/* normball for C and other languages: plain functions on pointers, an opaque optimizer, and status
 * codes with error texts. */
#ifndef NORMBALL_NORMBALL_C_H_
#define NORMBALL_NORMBALL_C_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum normball_status {
  NORMBALL_OK = 0,
  NORMBALL_INVALID_ARGUMENT = 1, /* no weight was changed */
  NORMBALL_NON_FINITE = 2,       /* the same; a gradient, a weight or s has NaN or infinity */
  NORMBALL_OUT_OF_MEMORY = 3,    /* no weight was changed */
  NORMBALL_ERROR = 4             /* no weight was changed */
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
  const char* norm; /* e.g. "spectral", "sign", "rms"; NULL: "auto", or the method's own */
  double radius;    /* positive; 1 if the method has its own */
} normball_layer;

typedef struct normball_report {
  int64_t step;
  double pairing; /* s */
  double eta;
  double gamma;
  double lr;
  double wolfe_gap;
  int clipped; /* eta was cut at rho, or at 1 in the first step of "auto_clipped" */
  int skipped; /* nothing was done: no gradient at all, or a gradient or s is not finite */
  int stalled; /* constrained and s < 0, so eta = 0: see normball_scale_into_balls() */
  double rho;  /* of a method that clips, also where its stepsize finds it; else 0, as in the first
                  step of "auto_clipped", which has seen nothing */
} normball_report;

typedef struct normball_layer_report {
  const char* name; /* valid as long as the optimizer */
  double pairing;   /* this layer's part of s */
  double dual_norm;
  double weight_norm; /* relative to the radius, before the step; with report_weight_norms */
} normball_layer_report;

/* Fill with normball_default_options() first. For numbers, zero means "not given". Options that are
 * given but not used by the method are refused. The sizes tell the library which fields the program
 * knows: structures may grow at their ends, and a program works with libraries that are older or
 * newer than the header it was compiled with. */
typedef struct normball_options {
  size_t struct_size;       /* sizeof(normball_options) */
  size_t layer_size;        /* sizeof(normball_layer) */
  size_t report_size;       /* sizeof(normball_report) */
  size_t layer_report_size; /* sizeof(normball_layer_report) */

  double lr;    /* gamma rho: the largest step in product-norm units; "cg" and "adaptive_sd" need
                   none, and it scales their steps */
  double alpha; /* weight of the newest gradient, in (0, 1] */
  double rho;   /* clipping threshold on s */
  double beta;  /* radius, for "s3cg" */
  double l0;    /* for "adaptive_sd", where one of l0 and l1 may be zero */
  double l1;
  const char* short_step; /* of "clipped_scion": "plain" (default), "norm" or "diameter"; of "s3cg":
                             "norm" (default) or "diameter" */
  int threads;            /* 0: OpenMP's default; at most 4096 */
  int overwrite_gradients; /* 0 or 1, as all below: gradient buffers may hold the directions */
  int light;               /* keep the average in the gradient buffers, and no other state (but
                              the stepsize "distance_aware" keeps its copy of the weights,
                              "start.<layer>"): add the new gradients to what a step leaves there,
                              without zeroing; alpha may then change before the first step only */
  int skip_nonfinite;      /* report and do nothing instead of NORMBALL_NON_FINITE */
  int report_weight_norms;
  const char* stepsize; /* a rule that finds it, for methods whose steps all have the length lr:
                           "adagrad", "distance_aware(most=0.01)", "momo", "auto_clipped"; NULL: the
                           method's. See docs/stepsizes.md */
} normball_options;

/* In the header, so that the sizes are those of the program. In other languages, set all fields
 * except these to zero. */
static inline void normball_default_options(normball_options* options) {
  if (options == NULL) return;
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof(normball_options);
  options->layer_size = sizeof(normball_layer);
  options->report_size = sizeof(normball_report);
  options->layer_report_size = sizeof(normball_layer_report);
}

typedef struct normball_optimizer normball_optimizer;

/* On an error *out is NULL. method: "clipped_scion", "unconstrained_clipped_scion", "scion",
 * "ggnc", ... */
normball_status normball_create(const char* method, normball_dtype dtype,
                                const normball_layer* layers, size_t layer_count,
                                const normball_options* options, normball_optimizer** out);
void normball_destroy(normball_optimizer* optimizer);

/* One pointer per layer, to as many elements as the layer has, of the optimizer's type. A layer
 * with a null gradient takes no part in the step; if all are null, no step is taken or counted.
 * report may be null. Layers that are stepped must not share memory. After an error, weights and
 * state are as before, with two exceptions: with overwrite_gradients, if a solver fails or s
 * overflows; and if an average was already not finite. Then the averages include the gradients, but
 * the weights are unchanged. */
normball_status normball_step(normball_optimizer* optimizer, void* const* weights,
                              void* const* gradients, normball_report* report);
/* The same with the loss at these weights, on the batch of the gradients. The stepsize "momo" needs
 * it, and refuses normball_step(); the others do not look at it. */
normball_status normball_step_with_loss(normball_optimizer* optimizer, void* const* weights,
                                        void* const* gradients, double loss,
                                        normball_report* report);
/* Describes a layer in the last step; before the first step and after one that failed, all numbers
 * are zero. */
normball_status normball_get_layer_report(const normball_optimizer* optimizer, size_t layer,
                                          normball_layer_report* report);

/* Values that may change between steps. rho: only if the method clips. */
normball_status normball_set_lr(normball_optimizer* optimizer, double lr);
normball_status normball_set_alpha(normball_optimizer* optimizer, double alpha);
normball_status normball_set_rho(normball_optimizer* optimizer, double rho);

/* Scales every weight outside its ball to the sphere: for weights that start outside, where a
 * constrained method may be unable to move. Stores the previous product norm in *before unless it
 * is null. */
normball_status normball_scale_into_balls(normball_optimizer* optimizer, void* const* weights,
                                          double* before);

/* The state, buffer by buffer, in place: to save, read the buffers; to restore, write them and set
 * the steps. */
normball_status normball_state_count(normball_optimizer* optimizer, size_t* count);
normball_status normball_state_buffer(normball_optimizer* optimizer, size_t index,
                                      const char** name, void** data, size_t* elements);
normball_status normball_get_steps(const normball_optimizer* optimizer, int64_t* steps);
/* From 0 to 2^62. */
normball_status normball_set_steps(normball_optimizer* optimizer, int64_t steps);
/* What the stepsize has seen, which is a part of the state: a few numbers, none for most methods.
 * They stay where they are as long as the optimizer lives. All zeros: it has seen nothing. */
normball_status normball_get_memory(const normball_optimizer* optimizer, const double** numbers,
                                    size_t* count);
normball_status normball_set_memory(normball_optimizer* optimizer, const double* numbers,
                                    size_t count);

/* Single norms, of a dense matrix. normball_lmo refuses NaN and infinity, and stores the dual norm
 * of d in *value unless it is null. The others give NaN if an entry is NaN, or else infinity if an
 * entry is infinite. */
normball_status normball_lmo(const char* norm, normball_dtype dtype, const void* d, int64_t rows,
                             int64_t cols, void* out, double* value);
normball_status normball_norm(const char* norm, normball_dtype dtype, const void* x, int64_t rows,
                              int64_t cols, double* value);
normball_status normball_dual_norm(const char* norm, normball_dtype dtype, const void* d,
                                   int64_t rows, int64_t cols, double* value);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NORMBALL_NORMBALL_C_H_ */
