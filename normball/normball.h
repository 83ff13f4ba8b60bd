/* normball: optimizers that step on norm balls. All of the library: in C++ all public headers, in C
 * the interface of normball_c.h. */
#ifndef NORMBALL_NORMBALL_H_
#define NORMBALL_NORMBALL_H_

#include "normball/normball_c.h"

#ifdef __cplusplus
#include "normball/average.h"
#include "normball/base/error.h"
#include "normball/iterate_sampler.h"
#include "normball/joint_step.h"
#include "normball/line_search.h"
#include "normball/matrix_view.h"
#include "normball/method.h"
#include "normball/norms.h"
#include "normball/optimizer.h"
#include "normball/peers.h"
#include "normball/polar.h"
#include "normball/product_norm.h"
#include "normball/random.h"
#include "normball/routed.h"
#include "normball/routing.h"
#include "normball/schedule.h"
#include "normball/search_rule.h"
#include "normball/shape.h"
#include "normball/step.h"
#include "normball/step_rule.h"
#endif

#endif /* NORMBALL_NORMBALL_H_ */
