// Cross-entropy of rows. Macros: TI, the type of targets; those of rows.cuh.

#include "rows.cuh"

// The class of a row, -1 if the row is ignored or its class is none; that is reported.
DEVICE i64 target_of(const TI* target, u32 row, u32 rows, u32 size, i64 ignored, Fault fault) {
    i64 wanted = row < rows ? (i64) *target : ignored;
    if (wanted != ignored && (wanted < 0 || wanted >= size)) {
        if (LANE == 0) {
            report(fault, wanted, row);
        }
        return -1;
    }
    return wanted == ignored ? -1 : wanted;
}

extern "C" __global__ void __launch_bounds__(BLOCK) loss(TX* losses, TX* logs, const TX* logits, const TI* target,
        i64 step_target, u32 rows, u32 size, f64 even_, f64 sharp_, i64 ignored, Fault fault) {
    u32 line = ROW;
    u32 n = line < rows ? size : 0;
    i64 wanted = target_of(target + (line < rows ? line * step_target : 0), line, rows, size, ignored, fault);
    C even = (C) even_, sharp = (C) sharp_;
    Row row(logits + (i64) (line < rows ? line : 0) * size, 1, n);
    Exponentials all = exponentials(row, n);
    C log_sum = log(all.sum);
    C sum = 0;
    EACH_TURN(n) {
        Values x = row.of(v, i);
        for (int k = 0; k < WIDTH; k++) {
            C log_probability = x.at[k] - all.greatest - log_sum;
            x.at[k] = log_probability;
            C share = i + k == wanted ? even + sharp : even;
            sum -= share == 0 ? C(0) : share * log_probability;
        }
        write_values(logs + (i64) line * size, 1, i, x);
    }
    sum = row_sum(sum);
    if (line < rows && LANE == 0) {
        losses[line] = narrow<TX>(wanted < 0 ? C(0) : sum);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) gradient(TX* dx, const TX* g, i64 step_g, const TX* logs,
        const TI* target, i64 step_target, u32 rows, u32 size, f64 even_, f64 sharp_, i64 ignored, Fault fault) {
    u32 line = ROW;
    if (line >= rows) {
        return;
    }
    i64 wanted = target_of(target + line * step_target, line, rows, size, ignored, fault);
    C even = (C) even_, sharp = (C) sharp_, scale = widen(g[line * step_g]);
    Row row(logs + (i64) line * size, 1, size);
    EACH_TURN(size) {
        Values x = row.of(v, i);
        for (int k = 0; k < WIDTH; k++) {
            C share = i + k == wanted ? even + sharp : even;
            x.at[k] = wanted < 0 ? C(0) : (exp(x.at[k]) - share) * scale;
        }
        write_values(dx + (i64) line * size, 1, i, x);
    }
}
