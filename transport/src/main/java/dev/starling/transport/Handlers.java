package dev.starling.transport;

/** The application's handlers, as it has set them by now; each ignores everything until it is set. */
final class Handlers {
    MessageHandler messages = (from, buffer, offset, length) -> { };
    PutHandler puts = (from, immediate) -> { };
    ConnectionHandler connections = new ConnectionHandler() { };
}
