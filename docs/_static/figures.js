// A frame around every figure, which wide.css lets move sideways on a narrow screen, and the size that it was drawn in.
document.querySelectorAll(".bd-article img:not(.sphx-glr-thumbcontainer img)").forEach((image) => {
  const frame = document.createElement("span");
  frame.className = "figure-frame";
  image.replaceWith(frame);
  frame.append(image);
  const tell = () => image.style.setProperty("--natural-width", `${image.naturalWidth}px`);
  if (image.complete) tell();
  else image.addEventListener("load", tell);
});
