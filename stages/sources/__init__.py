"""Where frames come from: files, folders of images and drawn scenes."""
