/** Files of images as data: decoding, resizing and random changes. */
package dev.starling.nn.image;
