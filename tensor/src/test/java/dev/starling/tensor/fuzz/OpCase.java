package dev.starling.tensor.fuzz;

import dev.starling.tensor.Device;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.Threads;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.program.Program;
import java.util.Collections;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Function;
import java.util.function.Supplier;

/** One call with drawn operands, and all its checks. */
final class OpCase {
    /** A family of calls, and its share of the cases. */
    private record Family(int weight, Function<Choices, Call> draw) { }

    /** Calls for which oneDNN compiles a kernel per geometry are rare: they take a hundred times as long. */
    private static final List<Family> FAMILIES = List.of(new Family(40, ElementwiseCalls::unary),
            new Family(40, ElementwiseCalls::binary), new Family(24, ElementwiseCalls::scaled),
            new Family(6, ElementwiseCalls::clamp), new Family(12, ElementwiseCalls::where),
            new Family(12, ElementwiseCalls::cast), new Family(4, ElementwiseCalls::gelu),
            new Family(4, ElementwiseCalls::softsign),
            new Family(4, ElementwiseCalls::chain), new Family(24, ReductionCalls::along),
            new Family(16, ReductionCalls::line), new Family(4, ReductionCalls::matmul),
            new Family(4, ReductionCalls::einsum), new Family(16, ShapeCalls::view),
            new Family(12, ShapeCalls::reshape),
            new Family(12, ShapeCalls::expand), new Family(8, ShapeCalls::pad), new Family(12, ShapeCalls::join),
            new Family(16, ShapeCalls::rearrange), new Family(16, ShapeCalls::select),
            new Family(12, ShapeCalls::choose), new Family(16, ShapeCalls::index), new Family(4, NeuralCalls::linear),
            new Family(4, NeuralCalls::dropout), new Family(6, NeuralCalls::attention),
            new Family(1, NeuralCalls::conv), new Family(8, NeuralCalls::pool), new Family(4, NeuralCalls::adaptive),
            new Family(10, NeuralCalls::norm), new Family(10, NeuralCalls::loss), new Family(6, NeuralCalls::recurrent),
            new Family(8, UpdateCalls::create), new Family(12, UpdateCalls::update), new Family(8, UpdateCalls::set));
    private static final List<Function<Choices, Call>> DRAWN = FAMILIES.stream()
            .flatMap(f -> Collections.nCopies(f.weight, f.draw).stream()).toList();

    private final Call call;
    private final int threads;
    private final boolean gradients;
    private final boolean twice;
    private final boolean captured;

    OpCase(Choices c) {
        int family = c.next(DRAWN.size());
        c.wild = c.oneIn(6);
        threads = c.oneIn(4) ? 2 : 1;
        gradients = c.oneIn(2);
        twice = c.oneIn(6);
        captured = c.oneIn(16);
        call = DRAWN.get(family).apply(c);
    }

    @Override
    public String toString() {
        return call.snippet();
    }

    /** Runs the case. Returns {@code null} if it passes. */
    Finding check() {
        try (Scope scope = Scope.open("case")) {
            return on(Device.cpu(), this::checked);
        } catch (Watch.TooLarge e) {
            return null;
        } catch (WrongException e) {
            return finding(e.getMessage(), "");
        }
    }

    /** Ends a case that failed inside a call. */
    private static final class WrongException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        WrongException(String kind) {
            super(kind, null, false, false);
        }
    }

    private <T> T on(Device device, Supplier<T> body) {
        return Threads.with(threads, () -> Device.with(device, body));
    }

    private Finding finding(String kind, String text) {
        return new Finding(kind, text + (threads == 1 ? "" : "\non " + threads + " threads") + (gradients
                ? "\nwith gradients" : "") + "\n" + call.snippet());
    }

    private Tensor[] operands(Device device) {
        return call.operands().stream().map(o -> o.on(device)).toArray(Tensor[]::new);
    }

    private Tensor[] run(Watch watch, Tensor... x) {
        Tensor[] results = Interceptor.with(watch, () -> call.body().run(x));
        if (watch.difference != null) {
            throw new WrongException(watch.difference);
        }
        for (Tensor t : results) {
            if (t.count() > 1 << 20) {
                throw new Watch.TooLarge();
            }
        }
        return results;
    }

    private Finding checked() {
        Tensor[] x = operands(Device.cpu());
        Snapshot[] before = Oracle.snapshots(x);
        Snapshot[] first;
        try {
            first = Oracle.snapshots(run(new Watch(0xFF, true), x));
        } catch (WrongException e) {
            return finding("value: " + name(e.getMessage()), e.getMessage());
        } catch (TensorException e) {
            return refusedElsewhere(e);
        } catch (RuntimeException | Error e) {
            return thrown("", e);
        }
        if (call.flowing() == 0) {
            return updated(x);
        }
        for (int i = 0; i < x.length; i++) {
            String difference = Snapshot.of(x[i]).differenceInBits(before[i]);
            if (difference != null) {
                return finding("operand changed", "operand " + i + " was changed: " + difference);
            }
        }
        Finding f = gradients ? gradients(first, x) : same("repeated", first, run(new Watch(0x7B, false), x));
        return f == null && captured && x.length > 0 ? captured(x) : f;
    }

    private String family() {
        return call.code().replaceAll("[\\[(0-9].*", "") + call.code().replaceAll("(?s).*Update\\.(\\w+).*", " $1");
    }

    private static String name(String difference) {
        return difference.replaceAll("\\[.*", "").replaceAll("[0-9.E-]+", "");
    }

    private Finding thrown(String where, Throwable e) {
        if (e instanceof Watch.TooLarge t) {
            throw t;
        }
        StackTraceElement[] trace = e.getStackTrace();
        return finding(where + "exception " + e.getClass().getSimpleName() + (trace.length == 0 ? ""
                : " at " + trace[0].getClassName() + "." + trace[0].getMethodName()), e + traced(trace));
    }

    private static String traced(StackTraceElement... trace) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < Math.min(12, trace.length); i++) {
            text.append("\n    at ").append(trace[i]);
        }
        return text.toString();
    }

    private Finding refusedElsewhere(TensorException refusal) {
        try {
            on(Device.reference(), () -> run(new Watch(0xFF, false), operands(Device.reference())));
        } catch (TensorException e) {
            return null;
        } catch (RuntimeException | Error e) {
            return thrown("on the reference device ", e);
        }
        return finding("refused on the CPU only", refusal.toString());
    }

    private Finding same(String what, Snapshot[] first, Tensor... results) {
        for (int i = 0; i < first.length; i++) {
            String difference = first[i].differenceInBits(Snapshot.of(results[i]));
            if (difference != null) {
                return finding(what + ": different bits", "result " + i + ": " + difference);
            }
        }
        return null;
    }

    /** Compares operands that were changed in place. */
    private Finding updated(Tensor... x) {
        Tensor[] there = operands(Device.reference());
        Tensor[] again = operands(Device.cpu());
        try {
            on(Device.reference(), () -> call.body().run(there));
            call.body().run(again);
        } catch (TensorException e) {
            return finding("refused on the reference device only", e.toString());
        }
        for (int i = 0; i < x.length; i++) {
            Snapshot expected = Snapshot.of(there[i]);
            Snapshot actual = Snapshot.of(x[i]);
            String bits = actual.differenceInBits(Snapshot.of(again[i]));
            if (bits != null) {
                return finding("update repeated: different bits from " + family(), "operand " + i + ": " + bits);
            }
            double[] a = actual.reals();
            double[] e = expected.reals();
            double epsilon = expected.dtype().isFloating() ? Oracle.epsilon(expected.dtype()) : 0;
            double magnitude = 0;
            for (Operand o : call.operands()) {
                for (double v : o.reals()) {
                    magnitude = Math.max(magnitude, Double.isFinite(v) ? Math.abs(v) : 0);
                }
            }
            boolean moves = call.code().contains("Assign") || call.code().contains("set(");
            for (int k = 0; k < e.length; k++) {
                double limit = moves || !expected.dtype().isFloating() ? 0
                        : epsilon * 16 * (Math.abs(e[k]) + magnitude);
                boolean right = a[k] == e[k] || Double.isNaN(a[k]) && Double.isNaN(e[k])
                        || Double.isFinite(e[k]) && Math.abs(a[k] - e[k]) <= limit;
                if (!right) {
                    return finding("update: wrong value from " + family(), "operand " + i + "[" + k + "] is "
                            + a[k] + " instead of " + e[k] + " ± " + limit);
                }
            }
        }
        return null;
    }

    private Finding gradients(Snapshot[] first, Tensor... x) {
        Tape tape = new Tape();
        Tensor[] results = Recorder.with(tape, () -> run(new Watch(0x7B, false), x));
        Finding f = same("recorded", first, results);
        if (f != null) {
            return f;
        }
        Tensor[] incoming = new Tensor[results.length];
        SplittableRandom random = new SplittableRandom(results.length);
        boolean any = false;
        for (int i = 0; i < Math.min(call.flowing(), results.length); i++) {
            if (results[i].dtype().isFloating()) {
                double[] reals = random.doubles(results[i].count(), -1, 1).toArray();
                for (int k = 0; k < reals.length; k++) {
                    reals[k] = Values.rounded(results[i].dtype(), reals[k]);
                }
                incoming[i] = new Operand(results[i].dtype(), results[i].shape().dims(), Operand.Layout.DENSE, reals)
                        .on(Device.cpu());
                any = true;
            }
        }
        if (!any) {
            return null;
        }
        Watch watch = new Watch(0xFF, true);
        try {
            Tensor[] once = Interceptor.with(watch, () -> tape.gradients(results, incoming, x));
            if (watch.difference != null) {
                return finding("value in a gradient: " + name(watch.difference), watch.difference);
            }
            Tensor[] again = Interceptor.with(new Watch(0x7B, false), () -> tape.gradients(results, incoming, x));
            for (int i = 0; i < once.length; i++) {
                String difference = once[i] == null ? null : Snapshot.of(once[i]).differenceInBits(
                        Snapshot.of(again[i]));
                if (difference != null) {
                    return finding("gradient repeated: different bits", "gradient " + i + ": " + difference);
                }
            }
            return twice ? second(tape, results, incoming, x) : null;
        } catch (RuntimeException | Error e) {
            return thrown("in a gradient ", e);
        }
    }

    /** Differentiates the gradients. */
    private Finding second(Tape tape, Tensor[] results, Tensor[] incoming, Tensor... x) {
        Watch watch = new Watch(0xFF, true);
        Interceptor.with(watch, () -> {
            Tensor[] once = Recorder.with(tape, () -> tape.gradients(results, incoming, x));
            Tensor[] given = new Tensor[once.length];
            for (int i = 0; i < once.length; i++) {
                given[i] = once[i] == null ? null : once[i].onesLike();
            }
            return tape.gradients(once, given, x);
        });
        return watch.difference == null ? null
                : finding("value in a second gradient: " + name(watch.difference), watch.difference);
    }

    /** A captured program gives the bits of the call itself, also for other elements in the same and other memory. */
    private Finding captured(Tensor... x) {
        Tensor[] dense = new Tensor[x.length];
        Tensor[] other = new Tensor[x.length];
        for (int i = 0; i < x.length; i++) {
            dense[i] = x[i].contiguous();
            other[i] = x[i].rank() == 0 ? x[i].copy() : x[i].flip(0).contiguous();
        }
        Program.Captured captured;
        Snapshot[] eager;
        try {
            eager = Oracle.snapshots(call.body().run(dense));
            captured = Program.capture(null, call.body()::run, dense);
        } catch (TensorException e) {
            // A call that reads elements on the host cannot be captured.
            return null;
        } catch (RuntimeException | Error e) {
            return thrown("in capture ", e);
        }
        try (Program program = captured.program()) {
            Finding f = same("in capture", eager, captured.outputs());
            for (int i = 0; i < 2 && f == null; i++) {
                f = same("captured", eager, program.run(dense));
            }
            Snapshot[] flipped = f == null ? ifLegal(other) : null;
            if (flipped != null) {
                for (int i = 0; i < x.length; i++) {
                    Tensor.apply(new Update.Assign(), dense[i], other[i]);
                }
                f = same("captured, with other elements", flipped, program.run(dense));
                f = f == null ? same("captured, with other memory", flipped, program.run(other)) : f;
            }
            return f;
        } catch (RuntimeException | Error e) {
            return thrown("captured ", e);
        }
    }

    /** Returns the results of the call, or {@code null} if these elements are illegal. */
    private Snapshot[] ifLegal(Tensor... x) {
        try {
            return Oracle.snapshots(call.body().run(x));
        } catch (TensorException e) {
            return null;
        }
    }
}
