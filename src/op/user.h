/* Custom ops, for the rules of the op "user". */
#ifndef LKI_OP_USER_H
#define LKI_OP_USER_H

#include "op/gradient.h"

bool lki_user_by_rows(const void *op);
void lki_user_gradient(lki_backward *b);

#endif
