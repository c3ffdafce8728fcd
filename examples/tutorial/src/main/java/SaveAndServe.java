import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.model.*;
import dev.starling.nn.preprocess.*;
import dev.starling.nn.serve.*;
import dev.starling.tensor.*;

record Flat(String city, double area) { }

/** Answers requests of many threads with the model that OwnData has saved. */
void main() throws Exception {
    TableEncoder encoder = Flats.encoder();
    Sequential model = Flats.model(encoder);
    ModelMetadata metadata = model.load(Path.of("target", "flats.safetensors"));
    IO.println("version " + metadata.version());
    long columns = encoder.tensor(Table.of(Flat.class, List.of(new Flat("Munich", 50)))).size(1);
    try (Predictor predictor = Predictor.of(model, columns).build();
            ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
        List<Future<Float>> rents = new ArrayList<>();
        for (String city : List.of("Munich", "Leipzig")) {
            rents.add(clients.submit(() -> {
                try (Scope scope = Scope.open()) {
                    Tensor row = encoder.tensor(Table.of(Flat.class, List.of(new Flat(city, 50))));
                    return predictor.predict(row.toFloats())[0];
                }
            }));
        }
        IO.println("rent in Munich: %.0f, in Leipzig: %.0f".formatted(rents.get(0).get(), rents.get(1).get()));
    }
}
