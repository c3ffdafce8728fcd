import dev.starling.nn.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.preprocess.*;
import dev.starling.tensor.*;

/** The structure of a model of rents, which both the program that trains it and the one that serves it need. */
final class Flats {
    private Flats() {
    }

    static TableEncoder encoder() {
        return TableEncoder.builder().numbers("area").categories("city", 4).target("rent").build();
    }

    /** Takes rows of a table, whose preprocessing is the model's first layer, and returns rents. */
    static Sequential model(TableEncoder encoder) {
        Generator random = Generator.seeded(2);
        return Sequential.of(encoder, Linear.of(encoder.width(), 32, random), new Relu(), Linear.of(32, 1, random),
                encoder.output());
    }
}
