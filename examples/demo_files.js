// Shared by both tabs of demo.py: draws a file into a canvas, at most as large as given, and hands
// pictures over. `element`, `props` and `trigger` are gradio's.
const message = element.querySelector(".message");

// Transparent parts are white, like paper. False if the browser cannot read the file.
async function drawFile(file, canvas, width, height) {
  let picture;
  try {
    picture = await createImageBitmap(file);
  } catch {
    message.textContent = "This file is not a picture that the browser can read.";
    return false;
  }
  message.textContent = "";
  const fit = Math.min(1, width / picture.width, height / picture.height);
  canvas.width = Math.max(1, Math.round(picture.width * fit));
  canvas.height = Math.max(1, Math.round(picture.height * fit));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return true;
}

// Calls `show` with files that are chosen or dropped.
function takeFiles(show) {
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) show(event.dataTransfer.files[0]);
  });
  element.querySelector("input[type=file]").addEventListener("change", (event) => {
    if (event.target.files.length) show(event.target.files[0]);
    event.target.value = "";
  });
}

function send(value) {
  props.value = value;
  trigger("input");
}
