package dev.starling.samples.train;

import dev.starling.distributed.codec.PowerSgd;
import dev.starling.distributed.codec.TopK;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.tensor.TensorException;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** How the ranks of a ring compress gradients: bf16, topk=FRACTION or powersgd=RANK. */
@FunctionalInterface
interface Compression {
    /** Configures a ring. */
    void apply(RingAllReduce.Builder ring);

    /** Reads the value of an option. */
    final class Converter implements ITypeConverter<Compression> {
        private static final String TOP_K = "topk=";
        private static final String POWER_SGD = "powersgd=";

        @Override
        public Compression convert(String text) {
            try {
                if (text.equals("bf16")) {
                    return RingAllReduce.Builder::halfPrecision;
                }
                if (text.startsWith(TOP_K)) {
                    TopK codec = new TopK(Double.parseDouble(text.substring(TOP_K.length())));
                    return ring -> ring.codec(codec);
                }
                if (text.startsWith(POWER_SGD)) {
                    PowerSgd codec = new PowerSgd(Integer.parseInt(text.substring(POWER_SGD.length())));
                    return ring -> ring.codec(codec);
                }
            } catch (TensorException e) {
                throw new TypeConversionException(e.getMessage());
            } catch (NumberFormatException e) {
                throw new TypeConversionException("'" + text + "' contains no number");
            }
            throw new TypeConversionException("expected bf16, topk=FRACTION or powersgd=RANK, got '" + text + "'");
        }
    }
}
