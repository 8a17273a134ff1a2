// What every producing kernel may do to a value before it stores it: add a residual, apply an activation.
// Codes are kernel arguments, uniform over a launch, so one program serves every epilogue.
#ifndef CODL_EPILOGUE_H
#define CODL_EPILOGUE_H

// ACTIVATION_RELU, RESIDUAL_AFTER and so on, from codl/ir/ops/epilogue.py
#include "common/codes.h"

// Scalars that an epilogue takes, last among the arguments of its kernel.
#define EPILOGUE_SCALARS int residual_order, int activation, float alpha, float beta

#endif
