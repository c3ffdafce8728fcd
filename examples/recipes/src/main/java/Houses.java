import com.sun.net.httpserver.*;
import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.preprocess.*;
import dev.starling.nn.serve.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;
import java.net.http.*;

Sequential model(TableEncoder encoder) {
    Generator random = Generator.seeded(42);
    return Sequential.of(encoder, Linear.of(encoder.width(), 32, random), new Relu(), Linear.of(32, 32, random),
            new Relu(), Linear.of(32, 1, random), encoder.output());
}

/** Answers a request such as {@code /price?120,10,Bern} with a price. */
void answer(HttpExchange exchange, TableEncoder encoder, Predictor predictor) throws IOException {
    try (exchange; Scope scope = Scope.open()) {
        String[] house = exchange.getRequestURI().getQuery().split(",");
        Tensor row = encoder.tensor(Table.of(List.of(Map.of("area", Double.valueOf(house[0]), "age",
                Double.valueOf(house[1]), "town", house[2]))));
        byte[] price = Float.toString(predictor.predict(row.toFloats())[0]).getBytes();
        exchange.sendResponseHeaders(200, price.length);
        exchange.getResponseBody().write(price);
    }
}

void main() throws Exception {
    Path best = Files.createTempDirectory("houses").resolve("best.safetensors");
    // Towns are texts, and some towns and ages are missing.
    List<Table> parts = CsvFile.of(Path.of("houses.csv")).separator(';').read().split(7, 0.8, 0.2);
    TableEncoder.Builder columns = TableEncoder.builder().numbers("area", "age").categories("town", 8).target("price");
    TableEncoder encoder = columns.build().adapt(parts.get(0));
    Sequential model = model(encoder);
    try (DataLoader train = DataLoader.of(encoder.dataset(parts.get(0))).batchSize(32).shuffle().build();
            DataLoader test = DataLoader.of(encoder.dataset(parts.get(1))).batchSize(200).build()) {
        IO.println(Trainer.of(model, Loss.meanSquared(), Adam.over(model).rate(0.01).build()).data(train).heldOut(test)
                .metrics(Metrics.rSquared()).listeners(EarlyStopping.patience(10), BestModel.of(model, best))
                .epochs(200).build().run());
    }
    // Another program would begin here. Means, towns and weights come from the file.
    TableEncoder loaded = columns.build();
    Sequential served = model(loaded);
    IO.println(served.load(best));
    HttpServer server = HttpServer.create(new InetSocketAddress("localhost", 0), 0);
    try (Predictor predictor = Predictor.of(served, 3).build(); HttpClient client = HttpClient.newHttpClient();
            ExecutorService threads = Executors.newFixedThreadPool(8); AutoCloseable stop = () -> server.stop(0)) {
        server.setExecutor(threads);
        server.createContext("/price", exchange -> answer(exchange, loaded, predictor));
        server.start();
        String uri = "http://localhost:" + server.getAddress().getPort() + "/price?120,%d,Bern";
        IntStream.range(0, 8).mapToObj(i -> client.sendAsync(HttpRequest.newBuilder(URI.create(uri.formatted(10 * i)))
                .build(), HttpResponse.BodyHandlers.ofString())).toList()
                .forEach(each -> IO.println("120 m² in Bern cost " + each.join().body()));
    }
}
